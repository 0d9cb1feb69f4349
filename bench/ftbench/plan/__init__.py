"""The plan of a run: scenarios, candidates, comparisons,
metrics and amounts of work. Nothing is measured here.
"""
