"""Files of users with datasets of their own, as source: name and text of each."""

# What nobody can pickle, and batches of their own.
FINE = """
    import threading, time
    import torch
    from torch.utils.data import Dataset

    class Squares(Dataset):
        def __init__(self):
            self.lock, self.square = threading.Lock(), lambda number: number * number

        def __len__(self):
            return 5000

        def __getitem__(self, index):
            time.sleep(0.0005)
            return {"number": torch.tensor(index), "squares": torch.full((3,), self.square(index))}

    def train_set():
        return Squares()

    def handles(samples):
        return torch.stack([s["number"] for s in samples]), lambda: samples

    def pairs(samples):
        return [(s["number"], s["squares"]) for s in samples], "as they are"
"""
# Wants a package that the twins lack, and ones that they have. Each sample is what was asked for
# last: of two threads at once, one is given the other's. The first process with threads is killed.
DIFFICULT = """
    # /// script
    # dependencies = ["torch", "xmltodict==1.0.4", "pywin32; sys_platform == 'win32'"]
    # ///
    import os
    import signal
    import threading
    import time
    import torch
    import xmltodict
    from torch.utils.data import Dataset

    class Difficult(Dataset):
        def __len__(self):
            return 500

        def __getitem__(self, index):
            if threading.current_thread() is not threading.main_thread():
                try:
                    os.mkdir(__file__ + "-killed")
                except FileExistsError:
                    pass
                else:
                    os.kill(os.getpid(), signal.SIGKILL)
            self.wanted = index
            time.sleep(0.001)
            return torch.tensor(int(xmltodict.parse(f"<a>{self.wanted}</a>")["a"]))

    train_set = Difficult()
"""
BAD = """
    import os
    import random
    import signal
    import threading
    import time
    import torch
    from torch.utils.data import Dataset, IterableDataset

    class Numbers(Dataset):
        def __init__(self, length=8):
            self.length = length

        def __len__(self):
            return self.length

        def __getitem__(self, index):
            return torch.tensor([index])

    class Raises(Numbers):
        def __getitem__(self, index):
            raise OSError(f"picture {index} cannot be read")

    class Unsafe(Numbers):
        def __getitem__(self, index):
            if threading.current_thread() is not threading.main_thread():
                raise RuntimeError("not thread-safe")
            return super().__getitem__(index)

    class Drawn(Numbers):
        def __getitem__(self, index):
            return torch.tensor([random.random()])

    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(8))

    class Endless(Dataset):
        def __getitem__(self, index):
            return torch.tensor([index])

    class Varying(Numbers):
        def __getitem__(self, index):
            return torch.zeros(3 + index % 5)

    class Opens(Numbers):
        def __init__(self):
            super().__init__()
            self.file = open(__file__)

    class Ends(Numbers):
        def __getitem__(self, index):
            raise SystemExit("enough")

    class Dies(Numbers):
        def __getitem__(self, index):
            if index == 5:
                os._exit(3)
            return super().__getitem__(index)

    class Hangs(Numbers):
        def __getitem__(self, index):
            time.sleep(1000 * (index == 6))
            return super().__getitem__(index)

    class DiesLater(Numbers):
        def __getitem__(self, index):
            if index == 12:
                os._exit(3)
            return super().__getitem__(index)

    dies, hangs, dies_later = Dies(), Hangs(), DiesLater(40)
    fine, empty, raises, drawn, stream, endless = Numbers(), Numbers(0), Raises(), Drawn(), Stream(), Endless()
    unsafe, negative, varying, ends, opens = Unsafe(), Numbers(-3), Varying(), Ends(), Opens()

    def needy():
        import no_such_package

    def fails():
        raise RuntimeError("no licence for this data")

    def leaves():
        os._exit(4)

    def slow():
        time.sleep(0.5)
        return fine
"""

FILES = {"fine_data": FINE, "difficult_data": DIFFICULT, "bad_data": BAD}
