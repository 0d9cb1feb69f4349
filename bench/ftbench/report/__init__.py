"""Reports: terminal, PNG, Markdown and a page of their own, all from a results.json document alone."""
