"""The files of a merge: merged.json, summary.md and the page."""

from pathlib import Path

from ftbench.document.store import ResultsError, WrongPath, write_atomically
from ftbench.merge import collect
from ftbench.merge.view import View
from ftbench.report.page import page
from ftbench.report.render import markdown
from ftrun import host

PAGE = "index.html"


def check(out: Path) -> None:
    """Raise WrongPath if *out* is a file, or the directory of a run, whose summary.md would go."""
    if (out / collect.RESULTS).exists():
        raise WrongPath(f"--out {host.path(str(out))} is the directory of a run: name another one")
    if out.exists() and not out.is_dir():
        raise WrongPath(f"--out {host.path(str(out))} is not a directory")


def write(view: View, out: Path) -> Path:
    """Write the files to the directory *out*, return the page's path; raise ResultsError."""
    charts = [chart for group in view.groups for chart in group.waterfalls]
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / collect.MERGED, view.document)
        write_atomically(out / "summary.md", markdown("merged.md.jinja", view=view))
        write_atomically(out / PAGE, page("merged.html.jinja", charts, view.document, view=view))
    except OSError as error:
        why = f"cannot write to {host.path(str(out))}: {error.strerror or error}"
        raise ResultsError(f"{why}. Name another directory with --out DIR") from error
    return out / PAGE
