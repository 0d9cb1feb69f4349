"""Reports of a run for the terminal, as PNG, as Markdown and as an HTML page, from its results.json alone."""
