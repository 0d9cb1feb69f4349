"""``state_dict()`` and ``load_state_dict()`` of a loader; see ``ftloader.state.format``."""
