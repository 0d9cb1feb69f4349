# A wheel for 3.13t whose modules do not declare that they can do without the GIL.
#
# Link: https://github.com/pandas-dev/pandas/issues/61844
# Package: pandas
# Fails: 2.3.1
# Fixed: 3.0.0
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: GIL enabled
# Timeout: 60
import pandas

print(pandas.__version__)
