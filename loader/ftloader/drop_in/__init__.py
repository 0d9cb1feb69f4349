"""This package's class in the place of torch's: ``installed`` for a program that asks for it,
``command`` for ``python -m ftloader``, which runs a program unchanged.
"""
