"""The data that scenarios read: generated once, or the user's."""
