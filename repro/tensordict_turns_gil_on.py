# A wheel for 3.13t whose module does not declare that it can do without the GIL.
#
# Link: https://github.com/pytorch/tensordict/pull/1481
# Package: tensordict
# Fails: 0.10.0
# Fixed: 0.11.0
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: GIL enabled
# Timeout: 180
import tensordict

print(tensordict.__name__)
