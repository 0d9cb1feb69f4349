"""The plan of a run: scenarios, candidates, comparisons, metrics and amounts of work. Nothing here runs them."""
