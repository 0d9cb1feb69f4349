# Two threads that overlap in warnings.catch_warnings() leave one's filters behind (3.14 without the GIL is right).
#
# Link: https://github.com/python/cpython/issues/128384
# Expected gil: fails (wrong result)
# Expected ft-gil: may fail (wrong result)
# Expected ft: may fail (wrong result)
# Timeout: 300
import sys
import threading
import warnings

before = list(warnings.filters)
both_in, first_out = threading.Event(), threading.Event()


def first():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first_in.set()
        both_in.wait()
    first_out.set()


def second():
    first_in.wait()
    with warnings.catch_warnings():  # remembers the other's filters as those to go back to
        both_in.set()
        first_out.wait()


first_in = threading.Event()
threads = [threading.Thread(target=first), threading.Thread(target=second)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(warnings.filters != before)
