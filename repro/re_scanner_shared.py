# One scanner of a regular expression in several threads gives the same match twice.
#
# Link: https://github.com/python/cpython/pull/141923
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.14.1
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (wrong result, signal, hang)
# Timeout: 60
import os
import re
import sys
import threading

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
MATCHES = 100_000
start = threading.Barrier(THREADS)
scanner = re.compile("a").scanner("a" * MATCHES)
found = []


def work():
    start.wait()
    while True:
        try:
            match = scanner.search()
        except ValueError:
            continue  # "regular expression scanner already executing", as it should be
        if match is None:
            break
        found.append(match.start())


threads = [threading.Thread(target=work) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(found), "matches, different ones:", len(set(found)))
sys.exit(sorted(found) != list(range(MATCHES)))
