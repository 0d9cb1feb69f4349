"""Draw README's badges, docs/badges/*.svg, from what the loader's distribution declares.

They need no service: what they say changes only with loader/pyproject.toml.

    python3.13 evaluation/pictures/badges.py
"""

import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

CHECKOUT = Path(__file__).resolve().parents[2]
LOADER = CHECKOUT / "loader"
BADGES = CHECKOUT / "docs/badges"

HEIGHT, LETTER, MARGIN = 20, 6.6, 12
"""Pixels: height, mean width of a character, space around a text."""


def badge(name: str, value: str) -> str:
    """Return the SVG of a badge: *name* on grey, *value* on blue."""
    left, right = (round(len(part) * LETTER + MARGIN) for part in (name, value))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{HEIGHT}" '
        f'role="img">'
        f"<title>{escape(f'{name}: {value}')}</title>"
        f'<rect width="{left + right}" height="{HEIGHT}" rx="3" fill="#005a9c"/>'
        f'<path d="M3 0h{left - 3}v{HEIGHT}h-{left - 3}a3 3 0 0 1-3-3v-14a3 3 0 0 1 3-3" '
        f'fill="#555"/>'
        '<g fill="#fff" text-anchor="middle" font-family="Helvetica,Arial,sans-serif" '
        'font-size="11">'
        f'<text x="{left / 2:g}" y="14">{escape(name)}</text>'
        f'<text x="{left + right / 2:g}" y="14">{escape(value)}</text></g></svg>\n'
    )


def badges() -> dict[str, str]:
    """Return the badges by file name."""
    project = tomllib.loads((LOADER / "pyproject.toml").read_text())["project"]
    result = {
        "licence.svg": badge("licence", project["license"]),
        "python.svg": badge("python", f"{project['requires-python']}, with or without the GIL"),
    }
    if (LOADER / "ftloader/py.typed").exists():
        result["typed.svg"] = badge("typed", "PEP 561")
    return result


def main() -> None:
    """Draw all badges."""
    BADGES.mkdir(exist_ok=True)
    for name, content in badges().items():
        (BADGES / name).write_text(content)


if __name__ == "__main__":
    main()
