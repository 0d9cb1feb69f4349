# What measure.py appends to a dataset's file for threadcheck,
# which looks at one script with its threads.
if __name__ == "__main__":
    import copy
    import itertools
    import threading

    def load(data):
        if not hasattr(data, "__getitem__") or hasattr(data, "__iter__"):
            for _ in itertools.islice(copy.deepcopy(data), 40):
                pass
            return
        for index in range(40):
            try:
                data[index]
            except Exception:
                pass

    shared = dataset() if callable(dataset) else dataset  # noqa: F821
    threads = [threading.Thread(target=load, args=(shared,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
