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
PAGES = {
    "README.md": "index.md",
    "docs/README.md": "index.md",
    "repro/README.md": "gallery.md",
    "examples/README.md": "examples.md",
    "loader/README.md": "loader.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
"""{file of the repository: page}"""
WRITTEN = "loader/README.md", "docs/README.md"
"""Files of PAGES whose page is another file's."""
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
FENCE = re.compile(r"^ *```", re.MULTILINE)


def on_files(files, config):
    """Add the pages that are no files of docs/."""
    for source, page in PAGES.items():
        if source not in WRITTEN:
            content = (CHECKOUT / source).read_text(encoding="utf-8")
            files.append(File.generated(config, page, content=content))
    files.append(File.generated(config, "api.md", content="\n".join(_api())))
    reports = [file.src_uri for file in files if file.src_uri.endswith("/report.html")]
    files.append(File.generated(config, "runs.md", content="\n".join(_runs(reports))))
    return files


def on_page_markdown(markdown, page, config, files):
    """Lead the links of a page to pages, or to the repository."""
    sources = {name: source for source, name in PAGES.items() if source not in WRITTEN}
    source = sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    url = (config.repo_url or "").rstrip("/")

    def led(link):
        target = link["target"]
        if re.match(r"\w+:|//", target):
            return link[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        place = PAGES.get(file, file.removeprefix("docs/"))
        if files.get_file_from_path(place) is not None:
            there = posixpath.relpath(place, posixpath.dirname(page.file.src_uri) or ".")
            return f"{link['image']}[{link['words']}]({there}{link['anchor'] or ''})"
        if not url:
            return link["words"]
        return f"[{link['words']}]({url}/blob/HEAD/{file}{link['anchor'] or ''})"

    markdown = BADGE.sub("", markdown)
    parts = FENCE.split(markdown)
    fences = FENCE.findall(markdown)
    # every second part is within a fence
    parts[::2] = [LINK.sub(led, part) for part in parts[::2]]
    joined = parts[0]
    for fence, part in zip(fences, parts[1:], strict=True):
        joined += fence + part
    return joined


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
