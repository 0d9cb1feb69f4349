"""A trial: a process that measures one candidate, and the endpoints that start it."""
