"""What happens inside a trial: the loaders, and what is measured of them."""
