# Matplotlib and contourpy, built by two versions of pybind11, crash a free-threaded build even with the GIL.
#
# Link: https://github.com/matplotlib/matplotlib/pull/29021
# Package: matplotlib
# Fails: 3.9.2
# Fixed: 3.10.0
# With: contourpy==1.3.0
# Expected gil: ok
# Expected ft-gil: fails (signal)
# Expected ft: fails (signal, GIL enabled)
# Timeout: 120
from matplotlib.figure import Figure

Figure().subplots().contour([[1, 2], [3, 4]], levels=4)
