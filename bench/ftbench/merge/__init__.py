"""Merging of runs of many machines (`bench merge`): kinds of machine,
their waterfalls, and where these differ.
"""
