"""A run: the twins, the rounds of their trials, and what disturbed them."""
