"""Draw the Mandelbrot set in pure Python: python mandelbrot.py threading|pool|asyncio THREADS

The rows are shared out by `threading`, by a ThreadPoolExecutor, or by asyncio with `to_thread`.

    ./twins bench --command 'python examples/commands/mandelbrot.py pool {n}' --parameter n=1,2,4
"""

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

SIZE, STEPS = 160, 200


def row(y: int) -> int:
    """Return the number of steps of all points in one row, until they leave or STEPS are done."""
    total = 0
    for x in range(SIZE):
        point, z = complex(3 * x / SIZE - 2, 2 * y / SIZE - 1), 0j
        for _ in range(STEPS):
            if abs(z) > 2:
                break
            z = z * z + point
            total += 1
    return total


def rows(first: int, threads: int) -> int:
    """Return the sum over every row from *first* on, in steps of *threads*."""
    return sum(map(row, range(first, SIZE, threads)))


def with_threading(threads: int) -> int:
    totals = [0] * threads

    def work(number: int) -> None:
        totals[number] = rows(number, threads)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(totals)


def with_pool(threads: int) -> int:
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(rows, range(threads), [threads] * threads))


def with_asyncio(threads: int) -> int:
    async def work() -> int:
        calls = (asyncio.to_thread(rows, number, threads) for number in range(threads))
        return sum(await asyncio.gather(*calls))

    return asyncio.run(work())


WAYS: dict[str, Callable[[int], int]] = {
    "threading": with_threading,
    "pool": with_pool,
    "asyncio": with_asyncio,
}

if __name__ == "__main__":
    print(WAYS[sys.argv[1]](int(sys.argv[2])))
