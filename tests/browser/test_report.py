"""The report's page in a real browser, made from a real run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from PIL import Image

from bench import synthesis

PROJECT = Path(__file__).resolve().parents[2]
PHONE = 375

# Runs in the page when it has loaded; what it finds out is left in the document for --dump-dom.
PROBE = """
<script>
addEventListener("load", () => {
  const root = document.documentElement, frame = document.createElement("pre");
  const sizes = [...document.images].map(i => [i.complete, i.naturalWidth, i.naturalHeight, i.alt.length]);
  const wide = [...document.querySelectorAll("body *")].filter(
    e => !e.closest(".scroll") && e.getBoundingClientRect().right > root.clientWidth + 0.5).map(e => e.outerHTML.slice(0, 90));
  frame.id = "probe";
  frame.textContent = JSON.stringify({sizes, wide, scroll: root.scrollWidth, client: root.clientWidth,
    requests: performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:")),
    background: getComputedStyle(document.body).backgroundColor});
  root.append(frame);
});
</script>
"""


@pytest.fixture(scope="module")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    return found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """report.html of a run of two rounds of one configuration."""
    directory = tmp_path_factory.mktemp("run")
    (directory / "photos").mkdir()
    for number in range(4):
        synthesis.photograph(number).save(directory / f"photos/{number}.jpg", "JPEG", **synthesis.JPEG_SETTINGS)
    twin = "ft" if sysconfig.get_config_var("Py_GIL_DISABLED") else "gil"
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--data", directory / "photos", "--out", directory / "results",
         "--configs", twin, "--workers", "1", "--batch-size", "2", "--rounds", "2"],
        env={**os.environ, "PYTHONPATH": str(PROJECT)}, text=True, capture_output=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return directory / "results/latest/report.html"


@pytest.fixture
def browse(chromium, tmp_path):
    """Runs headless Chromium on a page; returns what it printed."""
    def run(*arguments: str) -> str:
        done = subprocess.run(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--disable-background-networking", "--no-first-run", f"--user-data-dir={tmp_path / 'profile'}",
             "--hide-scrollbars", "--virtual-time-budget=5000", *arguments],
            text=True, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def probe(browse, report: Path, tmp_path: Path, width: int, *arguments: str) -> dict:
    """Load the page `width` pixels wide and return what PROBE found."""
    page = tmp_path / "page.html"
    page.write_text(report.read_text().replace("</body>", PROBE + "</body>"))
    # A headless window cannot be narrower than 500 pixels; a frame can.
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<iframe id=f src="page.html" style="width:{width}px;height:4000px;border:0"></iframe>'
        '<script>f.onload = () => setTimeout(() => { const p = document.createElement("pre"); p.id = "copy";'
        'p.textContent = f.contentDocument.getElementById("probe").textContent; document.body.append(p); }, 500)'
        "</script>")
    dom = browse("--allow-file-access-from-files", "--dump-dom", "--window-size=1200,4200", *arguments,
                 frame.as_uri())
    found = re.search(r'<pre id="copy">(.*?)</pre>', dom, re.DOTALL)
    assert found, dom[-2000:]
    import html

    return json.loads(html.unescape(found.group(1)))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("width", [PHONE, 1100])
def test_page_renders(browse, report, tmp_path, width):
    found = probe(browse, report, tmp_path, width)
    assert len(found["sizes"]) == 2
    for complete, natural_width, natural_height, alternative in found["sizes"]:
        assert complete and natural_width > 300 and natural_height > 200
        assert alternative > 40
    assert found["requests"] == []
    assert found["client"] == width
    assert found["scroll"] <= width and found["wide"] == []


@pytest.mark.timeout(300)
def test_page_is_dark_for_those_who_like_it(browse, report, tmp_path):
    light = probe(browse, report, tmp_path, PHONE)["background"]
    dark = probe(browse, report, tmp_path, PHONE, "--force-dark-mode",
                 "--blink-settings=preferredColorScheme=0")["background"]
    assert light == "rgb(255, 255, 255)"
    assert dark != light


@pytest.mark.timeout(300)
def test_page_is_not_blank(browse, report, tmp_path):
    shot = tmp_path / "shot.png"
    browse(f"--screenshot={shot}", "--window-size=1100,1600", report.as_uri())
    with Image.open(shot) as image:
        assert image.size == (1100, 1600)
        colours = image.convert("RGB").getcolors(1100 * 1600)
    assert len(colours) > 50  # the text's and the bars' colours


def test_page_names_nothing_outside_itself(report):
    text = report.read_text()
    # The pictures' XML namespaces and titles are inside base64; nothing else may be an address.
    assert not re.search(r"""(?:src|href|url\()\s*=?\s*["'(]?\s*(?:https?:|//)""", text)
    assert "<script" not in text
