"""Check of wheels on a package index: which turn the GIL on? Only ``imported`` installs and runs
packages. Data flow:

requirements -> index -> archive -> gil_slot -> judge -> survey -> table
"""
