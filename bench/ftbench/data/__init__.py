"""What scenarios read: generated once, or the user's own."""
