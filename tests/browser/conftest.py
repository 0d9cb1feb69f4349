"""The browser that looks at the pages."""

import pytest

from tests.browser import chromium


@pytest.fixture
def browser(tmp_path_factory: pytest.TempPathFactory) -> chromium.Chromium:
    """A browser with a profile of its own, since the site's pages remember light or dark."""
    executable = chromium.find()
    if executable is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    return chromium.Chromium(executable, tmp_path_factory.mktemp("browser"))
