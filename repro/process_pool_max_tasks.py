# Not of the GIL: a ProcessPoolExecutor whose workers end after max_tasks_per_child stops working.
#
# Link: https://github.com/python/cpython/issues/115634
# Package: CPython
# Fails: 3.13.5
# Fixed: 3.13.15
# Expected gil: may fail (hang)
# Expected ft-gil: may fail (hang)
# Expected ft: may fail (hang)
# Timeout: 15
import concurrent.futures


def work(number):
    return number


if __name__ == "__main__":
    with concurrent.futures.ProcessPoolExecutor(2, max_tasks_per_child=1) as pool:
        print(sum(pool.map(work, range(12))))
