"""The number of an iterator's worker threads that are in use, which is kept here alone."""


class WorkersInUse:
    """Number of worker threads that take tasks now.

    The pool sets ``number``. All that depends on the number asks this object: the helpers of a
    batch, the limit on batches ahead, the search for idle workers. The iterator's lock guards it.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number
