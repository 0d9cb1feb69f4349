"""A loader's ``state_dict()`` and ``load_state_dict()``.
``ftloader.state.format`` describes the saved state.
"""
