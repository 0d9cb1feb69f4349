"""Numbers that the loader has chosen, where the user has given none."""


class Chosen(int):
    """Integer that stands for "not given": the loader may use another number, which it finds while it runs.

    A library that rebuilds a loader from its attributes hands the object on, and the new loader may choose, too.
    """
