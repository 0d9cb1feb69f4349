"""The files of a merge: merged.json, summary.md and the page."""

from pathlib import Path

from ftbench.document.store import ResultsError, WrongPath, write_atomically
from ftbench.merge import collect, markdown, page
from ftbench.merge.view import View
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
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / collect.MERGED, view.document)
        write_atomically(out / "summary.md", markdown.write(view))
        write_atomically(out / PAGE, page.write(view))
    except OSError as error:
        why = f"cannot write to {host.path(str(out))}: {error.strerror or error}"
        raise ResultsError(f"{why}. Name another directory with --out DIR") from error
    return out / PAGE
