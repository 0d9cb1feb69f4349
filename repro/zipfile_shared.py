# Members of one ZipFile read by several threads: the wrong bytes until 2022, since they shared a position.
# Without the GIL the count of open members (_fileRefCnt) can lose an update, and the file is closed under its readers.
#
# Link: https://github.com/python/cpython/issues/86535
# Expected gil: ok
# Expected ft-gil: ok
# Expected ft: may fail (exception, wrong result)
# Timeout: 300
import io
import os
import sys
import threading
import zipfile

THREADS = int(os.environ.get("REPRO_THREADS", 4))
MEMBERS = 50
memory = io.BytesIO()
with zipfile.ZipFile(memory, "w", zipfile.ZIP_DEFLATED) as archive:
    for number in range(MEMBERS):
        archive.writestr(str(number), bytes([number]) * 20_000)
archive = zipfile.ZipFile(memory)
wrong = []


def work(first):
    for step in range(300):
        number = (first + 7 * step) % MEMBERS
        if archive.read(str(number)) != bytes([number]) * 20_000:
            wrong.append(number)


threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(bool(wrong))
