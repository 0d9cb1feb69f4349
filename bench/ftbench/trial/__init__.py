"""A trial: a process that measures one contestant, and the endpoints that start it."""
