# Pillow's Image.point() walks a caller's list in C while another thread empties it (seen with Pillow 12.2.0).
#
# Link: https://github.com/python-pillow/Pillow/issues/9852
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (signal)
# Timeout: 300
import os
import threading

from PIL import Image

THREADS = int(os.environ.get("REPRO_THREADS", 4))
image = Image.new("L", (64, 64))
table = list(range(256))


def read():
    for _ in range(20_000):
        try:
            image.point(table, mode="F")
        except (ValueError, TypeError):
            pass  # it came when the list was empty, which is fair


def change():
    for _ in range(100_000):
        table.clear()
        table.extend(range(256))


threads = [threading.Thread(target=read if number % 2 else change) for number in range(max(THREADS, 2))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
