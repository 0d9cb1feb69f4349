"""The browser that the tests of pages share."""

import pytest

from tests.browser import chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> chromium.Chromium:
    executable = chromium.find()
    if executable is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    return chromium.Chromium(executable, tmp_path_factory.mktemp("browser"))
