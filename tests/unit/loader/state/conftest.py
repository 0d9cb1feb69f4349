"""Fixture for the tests of saved states."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _restless_tuner(restless_tuner):
    """Use the fixture of tests/conftest.py for every test here."""
