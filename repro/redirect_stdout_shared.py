# Not of the GIL: contextlib.redirect_stdout redirects the process's output, so what other threads print goes there.
#
# Link: https://github.com/python/cpython/issues/130148
# Expected gil: fails (wrong result)
# Expected ft-gil: fails (wrong result)
# Expected ft: fails (wrong result)
# Timeout: 300
import contextlib
import io
import sys
import threading

redirected, printed = threading.Event(), threading.Event()


def other():
    redirected.wait()
    print("of the other thread")
    printed.set()


thread = threading.Thread(target=other)
thread.start()
text = io.StringIO()
with contextlib.redirect_stdout(text):
    redirected.set()
    printed.wait()
thread.join()
print("caught:", text.getvalue())
sys.exit(text.getvalue() != "")
