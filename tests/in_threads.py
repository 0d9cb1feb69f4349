"""A function in several threads at once."""

import threading
from collections.abc import Callable, Iterable
from typing import Any


def in_threads(function: Callable[[Any], object], values: Iterable[Any]) -> None:
    """Run ``function(value)`` in a thread for each value,
    all at once; raise what one of them raised.
    """
    values, errors = list(values), []
    start = threading.Barrier(len(values))

    def run(value: Any) -> None:
        try:
            start.wait(60)
            function(value)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(value,)) for value in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
