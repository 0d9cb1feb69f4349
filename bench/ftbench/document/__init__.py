"""results.json: its form, its writing and its checking."""
