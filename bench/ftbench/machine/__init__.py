"""What the machine does meanwhile: its load and other disturbance, CPU time, the page cache."""
