# Not of the GIL: a child that is forked while another thread holds a lock waits for that lock forever.
#
# Link: https://github.com/python/cpython/issues/50970
# Expected gil: fails (hang)
# Expected ft-gil: fails (hang)
# Expected ft: fails (hang)
# Timeout: 5
import os
import threading

lock = threading.Lock()
held, done = threading.Event(), threading.Event()


def hold():
    with lock:
        held.set()
        done.wait()


thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    with lock:  # the thread that would let it go does not exist in this process
        os._exit(0)
os.waitpid(child, 0)
done.set()
thread.join()
