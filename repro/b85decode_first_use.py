# The first call of base64.b85decode() in several threads: one sees the other's unfinished table.
#
# Link: https://github.com/python/cpython/issues/141141
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.13.10
# Expected gil: may fail (exception)
# Expected ft-gil: may fail (exception)
# Expected ft: fails (exception)
# Timeout: 60
import base64
import sys
import threading

ROUNDS = 500
sys.setswitchinterval(1e-6)
encoded = base64.b85encode(b"data" * 4)
now, done = [-1], [-1, -1]


def work(number):
    for step in range(ROUNDS):
        while now[0] < step:
            pass  # both begin in the same moment
        try:
            assert base64.b85decode(encoded) == b"data" * 4
        except BaseException:
            done[number] = now[0] = ROUNDS
            raise
        done[number] = step


threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
for thread in threads:
    thread.start()
for step in range(ROUNDS):
    if now[0] == ROUNDS:
        break
    base64._b85dec = None  # as at the first call
    now[0] = step
    while min(done) < step and max(done) < ROUNDS:
        pass
now[0] = ROUNDS
for thread in threads:
    thread.join()
