"""Numbers that the loader has chosen, where the user has given none."""

from typing import Any

from ftloader.diagnosis.cpus import usable_cpus


class Chosen(int):
    """Integer that stands for "not given": the loader may use another number, which it finds while it runs.

    A library that rebuilds a loader from its attributes hands the object on, and the new loader may choose, too.
    """


def number_of_workers(given: Any) -> Any:
    """Return *given*; for "auto", the number of CPUs, as a number that iterators may vary.

    Raises ``TypeError`` for any other text.
    """
    if not isinstance(given, str):
        return given
    if given != "auto":
        raise TypeError(f'num_workers must be a number or "auto", got {given!r}')
    return Chosen(usable_cpus())
