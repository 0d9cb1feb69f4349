"""Reports of a run, made from its results.json alone: text for a terminal, PNG pictures, Markdown
and an HTML page.
"""
