"""Comparison of runs: of two (`bench compare`),
and of one with those of its machine at other hours.
"""
