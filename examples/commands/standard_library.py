"""Work of the standard library in threads: python standard_library.py json|zlib|sqlite THREADS

json holds the GIL, zlib releases it for a whole text, and sqlite3 for each row.

    ./twins bench --command 'python examples/commands/standard_library.py json {n}' --parameter n=1,2,4
"""

import json
import sqlite3
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

TASKS = 32
ROWS = [
    {"name": f"item {number}", "value": number * 1.5, "tags": ["a", "b"]} for number in range(2000)
]
TEXT = json.dumps(ROWS)


def with_json(number: int) -> int:
    """Read and write a text of 2,000 objects."""
    return len(json.dumps(json.loads(TEXT)))


def with_zlib(number: int) -> int:
    """Compress the text three times, and expand it."""
    return sum(len(zlib.decompress(zlib.compress(TEXT.encode(), 6))) for _ in range(3))


def with_sqlite(number: int) -> int:
    """Fill a table of a database in memory, of this task alone, and read a sum from it."""
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE items (name TEXT, value REAL)")
        database.executemany("INSERT INTO items VALUES (:name, :value)", ROWS)
        (total,) = database.execute("SELECT sum(value) FROM items").fetchone()
    database.close()
    return int(total)


WORK: dict[str, Callable[[int], int]] = {
    "json": with_json,
    "zlib": with_zlib,
    "sqlite": with_sqlite,
}

if __name__ == "__main__":
    with ThreadPoolExecutor(int(sys.argv[2])) as pool:
        print(sum(pool.map(WORK[sys.argv[1]], range(TASKS))))
