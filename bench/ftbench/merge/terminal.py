"""Writing of a merge to the terminal."""

from ftbench.merge.view import View
from ftbench.report import terminal
from ftrun import escape, host


def write(view: View) -> None:
    """Print each group's answer and tables, then what is not merged, notes, and the page's path."""
    with terminal.printed() as console:
        for group in view.groups:
            terminal.say(console, [group.answer], "bold")
            terminal.say(console, group.remarks)
            terminal.say(console, group.outliers, "bold red")
            for title, table in group.tables:
                console.print()
                terminal.table(console, title, table, chain=True)
            console.print()
        terminal.say(console, view.not_merged, "yellow")
        terminal.say(console, [f"note: {note}" for note in view.notes])
        if not view.groups:
            console.print("Nothing could be merged.")
            return
        written = "--out DIR writes it, with merged.json and summary.md"
        if view.page:
            written = escape.one_line(host.path(str(view.page)))
        console.print(f"merged: {view.title}\npage: {written}", soft_wrap=True)
