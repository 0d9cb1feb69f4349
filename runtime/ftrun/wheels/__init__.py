"""What wheels say about the GIL, read from a package index without installing or running anything.

requirements -> index -> judge -> table
                         judge -> archive -> gil_slot
"""
