# Independent TensorDicts made in several threads share one record of transfers.
#
# Link: https://github.com/pytorch/tensordict/issues/1700
# Package: tensordict
# Fails: 0.12.2
# Fixed: 0.13.0
# Expected gil: may fail (exception)
# Expected ft-gil: may fail (exception)
# Expected ft: fails (exception)
# Timeout: 60
import os
import threading

import torch
from tensordict import TensorDict

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
source = {str(number): torch.zeros(2) for number in range(50)}
start = threading.Barrier(THREADS)


def work():
    start.wait()
    for _ in range(100):
        TensorDict(source, device="cpu")


threads = [threading.Thread(target=work) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
