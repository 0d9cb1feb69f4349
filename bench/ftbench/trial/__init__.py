"""Trials, processes that each measure one candidate, and the endpoints (interpreters or servers)
that start them.
"""
