# Not of the GIL: a file has one position, so a seek and the read after it belong under a lock (or use os.pread).
#
# Link: https://github.com/apache/mxnet/pull/10628
# Expected gil: fails (wrong result)
# Expected ft-gil: fails (wrong result)
# Expected ft: fails (wrong result)
# Timeout: 300
import sys
import tempfile
import threading

RECORD = 4096
file = tempfile.TemporaryFile(buffering=0)
# Behind the first record is one that nobody wants: whoever reads second reads that, or the end of the file.
file.write(b"0" * RECORD + b"x" * RECORD + b"1" * RECORD)
both_sought = threading.Barrier(2)
wrong = []


def work(number):
    file.seek(2 * number * RECORD)
    both_sought.wait()
    if file.read(RECORD) != str(number).encode() * RECORD:
        wrong.append(number)


threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("wrong records:", wrong)
sys.exit(bool(wrong))
