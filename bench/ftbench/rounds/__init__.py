"""A run: its twins, scenarios, rounds and trials, and the progress display."""
