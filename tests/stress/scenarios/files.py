"""Files and archives, read by all threads at once."""

import io
import itertools
import mmap
import os
import sqlite3
import tarfile
import tempfile
import threading
import zipfile

import fsspec

from tests.stress.engine import Scenario

RECORDS, SIZE = 40, 3000


def _record(number):
    return bytes([number]) * SIZE


def _temporary(data=b""):
    """Return the path of a new file with *data*, which the nursery removes."""
    handle, path = tempfile.mkstemp()
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    return path


class _Records(Scenario):
    """A file of records."""

    @classmethod
    def set_up(cls):
        cls.path = _temporary(b"".join(map(_record, range(RECORDS))))
        cls.file = open(cls.path, "rb")  # noqa: SIM115  # for the life of the process
        cls.map = mmap.mmap(cls.file.fileno(), 0, access=mmap.ACCESS_READ)

    def step(self, thread, rng):
        for number in rng.sample(range(RECORDS), RECORDS):
            assert self.read(number) == _record(number)


class PositionedReading(_Records):
    """os.pread on one descriptor."""

    def read(self, number):
        return os.pread(self.file.fileno(), SIZE, number * SIZE)


class HandlePerCall(_Records):
    """open, seek, read and close by each."""

    def read(self, number):
        with open(self.path, "rb") as file:
            file.seek(number * SIZE)
            return file.read(SIZE)


class SharedHandleUnderLock(_Records):
    """One buffered file, with a lock around seek and read."""

    lock = threading.Lock()

    def read(self, number):
        with self.lock:
            self.file.seek(number * SIZE)
            return self.file.read(SIZE)


class SharedMap(_Records):
    """Slices and memoryviews of one memory map."""

    def read(self, number):
        start = number * SIZE
        view = memoryview(self.map)[start : start + SIZE]
        try:
            assert bytes(view) == self.map[start : start + SIZE]
            return bytes(view)
        finally:
            view.release()


class SharedZip(_Records):
    """One ZipFile under a lock. Its own guards the file's position, but not the count of its
    readers (``_fileRefCnt += 1`` in Lib/zipfile): without the GIL a lost update closes the file
    under them."""

    known = (
        "a ZipFile that threads share without a lock loses count of its readers without the GIL "
        "(repro/zipfile_shared.py, https://github.com/python/cpython/issues/86535)"
    )
    lock = threading.Lock()

    @classmethod
    def set_up(cls):
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(RECORDS):
                archive.writestr(str(number), _record(number))
        cls.archive = zipfile.ZipFile(data)

    def read(self, number):
        with self.lock:
            return self.archive.read(str(number))


def _tar_of_records() -> bytes:
    """Return an archive of all records, each a member named by its number."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for number in range(RECORDS):
            member = tarfile.TarInfo(str(number))
            member.size = SIZE
            archive.addfile(member, io.BytesIO(_record(number)))
    return data.getvalue()


class TarMembersByOffset(_Records):
    """Members of a tar file read by their offsets, without the TarFile's shared position."""

    @classmethod
    def set_up(cls):
        data = _tar_of_records()
        cls.file = open(_temporary(data), "rb")  # noqa: SIM115
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            cls.members = [(member.offset_data, member.size) for member in archive.getmembers()]

    def read(self, number):
        offset, size = self.members[number]
        return os.pread(self.file.fileno(), size, offset)


class TarPerThread(_Records):
    """A TarFile a thread over the same bytes."""

    @classmethod
    def set_up(cls):
        cls.data = _tar_of_records()

    def step(self, thread, rng):
        with tarfile.open(fileobj=io.BytesIO(self.data)) as archive:
            for member in itertools.islice(archive, 10):
                assert archive.extractfile(member).read() == _record(int(member.name))


class SqlitePerThread(_Records):
    """A connection a thread to one database file."""

    @classmethod
    def set_up(cls):
        cls.path = _temporary()
        with sqlite3.connect(cls.path) as connection:
            connection.execute("create table records (number integer primary key, data blob)")
            connection.executemany(
                "insert into records values (?, ?)", [(n, _record(n)) for n in range(RECORDS)]
            )
        connection.close()

    def step(self, thread, rng):
        connection = sqlite3.connect(self.path)
        try:
            for number in rng.sample(range(RECORDS), 10):
                row = connection.execute(
                    "select data from records where number = ?", (number,)
                ).fetchone()
                assert row[0] == _record(number)
        finally:
            connection.close()


class SqliteSharedUnderLock(_Records):
    """One connection, opened for all threads, and a lock."""

    lock = threading.Lock()

    @classmethod
    def set_up(cls):
        cls.connection = sqlite3.connect(":memory:", check_same_thread=False)
        cls.connection.execute("create table records (number integer primary key, data blob)")
        cls.connection.executemany(
            "insert into records values (?, ?)", [(n, _record(n)) for n in range(RECORDS)]
        )

    def read(self, number):
        with self.lock:
            return self.connection.execute(
                "select data from records where number = ?", (number,)
            ).fetchone()[0]


class FsspecFiles(_Records):
    """One fsspec file system for all threads: whole files, ranges, handles and listings."""

    @classmethod
    def set_up(cls):
        cls.system = fsspec.filesystem("memory")
        for number in range(RECORDS):
            cls.system.pipe_file(f"/records/{number}", _record(number))

    def read(self, number):
        path = f"/records/{number}"
        assert self.system.cat_file(path, start=5, end=15) == _record(number)[5:15]
        with fsspec.filesystem("memory").open(path, "rb") as file:
            assert file.read(10) == _record(number)[:10]
        assert self.system.info(path)["size"] == SIZE
        return self.system.cat_file(path)
