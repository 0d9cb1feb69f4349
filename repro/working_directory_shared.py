# Not of the GIL: the working directory is the whole process's, so another thread's os.chdir changes relative paths.
#
# Link: https://github.com/python/steering-council/issues/77
# Expected gil: fails (exception)
# Expected ft-gil: fails (exception)
# Expected ft: fails (exception)
# Timeout: 300
import os
import tempfile
import threading

here, other = tempfile.mkdtemp(), tempfile.mkdtemp()
with open(os.path.join(here, "data.txt"), "w") as file:
    file.write("data")
os.chdir(here)
thread = threading.Thread(target=os.chdir, args=(other,))
thread.start()
thread.join()
with open("data.txt") as file:
    print(file.read())
