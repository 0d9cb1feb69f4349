"""What is measured, on how much work, and what is compared: names and numbers, before anything runs."""
