"""The data that scenarios read: generated once, or supplied by the user."""
