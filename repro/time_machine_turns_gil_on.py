# A wheel for 3.13t whose module does not declare that it can do without the GIL.
#
# Link: https://github.com/adamchainz/time-machine/issues/530
# Package: time-machine
# Fails: 2.17.0
# Fixed: 3.0.0
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: GIL enabled
# Timeout: 60
import time_machine

with time_machine.travel(0):
    pass
