# One ImageFont in several threads: FreeType's faces are not made for that.
#
# Link: https://github.com/python-pillow/Pillow/issues/9497
# Package: pillow
# Fails: 12.1.1
# Fixed: 12.2.0
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: fails (signal, exception, wrong result, hang)
# Timeout: 60
import os
import threading

from PIL import ImageFont

THREADS = max(2, int(os.environ.get("REPRO_THREADS", 4)))
font = ImageFont.load_default(size=20)
start = threading.Barrier(THREADS)


def work(number):
    start.wait()
    for step in range(500):
        font.getmask(f"text {number} {step}")


threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
