"""Pages of the site besides docs/, and links between all of them: a hook of mkdocs.

In the repository, links lead to files. On the site, those to a page lead to it, and those to other
files lead to the repository at PROJECT_URL; without one they are words.
"""

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.structure.files import File

CHECKOUT = Path(__file__).resolve().parents[1]
ADDED = {
    "index.md": "README.md",
    "gallery.md": "repro/README.md",
    "examples.md": "examples/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
}
"""{page: file of the repository, outside of docs/}"""
PAGES = {source: page for page, source in ADDED.items()} | {
    "docs/README.md": "index.md",
    "loader/README.md": "loader.md",
}
"""{file of the repository: the page to which its links lead}"""
API = {
    "Loading": ["ftloader.DataLoader", "ftloader.sample_rng"],
    "Samples that fail": ["ftloader.Skipped", "ftloader.SkipLog"],
    "Decoding": ["ftloader.empty_sample", "ftloader.decode"],
    "Data": ["ftloader.datasets", "ftloader.distributed", "ftloader.cache.GrowingCache"],
    "Thread safety": ["ftsafety.audit.run.audit"],
}
"""{heading of the API's page: names in the packages}"""
LINK = re.compile(
    r"(?P<image>!?)\[(?P<words>[^\]]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)"
)
BADGE = re.compile(r"^\[!\[.*\n", re.MULTILINE)
FENCE = re.compile(r"(^ *```)", re.MULTILINE)


def on_files(files, config):
    """Add the pages that are no files of docs/."""
    for page, source in ADDED.items():
        content = (CHECKOUT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=content))
    files.append(File.generated(config, "api.md", content="\n".join(_api())))
    reports = [file.src_uri for file in files if file.src_uri.endswith("/report.html")]
    files.append(File.generated(config, "runs.md", content="\n".join(_runs(reports))))
    return files


def on_page_markdown(markdown, page, config, files):
    """Lead the links of a page to pages, or to the repository."""
    source = ADDED.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    url = (config.repo_url or "").rstrip("/")

    def led(link):
        target = link["target"]
        if re.match(r"\w+:|//", target):
            return link[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        place = PAGES.get(file, file.removeprefix("docs/"))
        if files.get_file_from_path(place) is not None:
            path = posixpath.relpath(place, posixpath.dirname(page.file.src_uri) or ".")
            return f"{link['image']}[{link['words']}]({path}{link['anchor'] or ''})"
        if not url:
            return link["words"]
        return f"[{link['words']}]({url}/blob/HEAD/{file}{link['anchor'] or ''})"

    # Words, a fence, code, a fence, and again.
    parts = FENCE.split(BADGE.sub("", markdown))
    parts[::4] = [LINK.sub(led, words) for words in parts[::4]]
    return "".join(parts)


def _api() -> Iterator[str]:
    yield "# The API\n\nAll public names, from their docstrings."
    for heading, names in API.items():
        yield f"\n## {heading}\n"
        for name in names:
            yield f"::: {name}\n"


def _runs(reports: list[str]) -> Iterator[str]:
    yield "# Pages of kept runs\n"
    yield "[The list of results](results/README.md) says which machines these are, and what was run.\n"
    for report in sorted(reports):
        folder = os.path.dirname(report).removeprefix("results/")
        yield f"- [{folder}]({report})"
