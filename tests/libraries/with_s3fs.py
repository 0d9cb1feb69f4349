# /// script
# dependencies = ["s3fs==2026.9.0", "obstore==0.10.1", "moto[server]==5.2.5"]
# ///
"""A growing cache of a bucket, from a real server that speaks S3's protocol (moto's)."""

import contextlib
import socketserver
import threading
import time

import boto3
from moto.server import ThreadedMotoServer
from torch.utils.data import DataLoader

from ftloader.cache import CacheError, GrowingCache, UrlSource, readers

KEYS = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "region_name": "us-east-1"}


@contextlib.contextmanager
def bucket(count):
    """Yield a client and a source of *count* objects, which end with the server."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", **KEYS)
        client.create_bucket(Bucket="data")
        put(client, range(count))
        yield (
            client,
            UrlSource("s3://data/samples", endpoint_url=f"http://{host}:{port}", key="k", secret="s", timeout=20),
        )
    finally:
        server.stop()


def put(client, numbers):
    for number in numbers:
        client.put_object(Bucket="data", Key=f"samples/{number:03}", Body=content(number))


def content(number):
    return bytes([number]) * (1000 + number)


def loaded(cache):
    return sorted(sample for batch in DataLoader(cache, batch_size=7, num_workers=2) for sample in batch)


def program_bucket_that_grows(folder):
    fetched = []
    with bucket(40) as (client, source):
        for count in 40, 50:
            put(client, range(count))
            with GrowingCache(source, folder, 4e6, fetchers=4, min_samples=count, decode=bytes.hex) as cache:
                cache.set_epoch(0)
                assert loaded(cache) == [content(number).hex() for number in range(count)]
                fetched.append(cache.statistics().fetched)
    return fetched


def program_keys_of_any_kind(folder):
    """Read by obstore and by s3fs: the same bytes for any key."""
    keys = ["a b", "ü+%2B%", "x/../y", "q?a=b&c#d", "~'()*!", "/a", "a//b", "a"]
    found = []
    with bucket(0) as (client, source):
        address = source._options
        for number, key in enumerate(keys):
            client.put_object(Bucket="data", Key=f"odd/{key}", Body=content(number))
        client.put_object(Bucket="data", Key="packed", Body=content(0), ContentEncoding="gzip")
        packed = UrlSource("s3://data", keys=["packed"], **address)
        assert packed.read("packed") == content(0)
        packed.close()
        for options in {}, {"requester_pays": True}:
            source = UrlSource("s3://data/odd", **source._options, **options)
            with GrowingCache(
                source, folder / str(len(options)), 4e6, fetchers=1, min_samples=len(keys), decode=bytes.hex
            ) as cache:
                cache.set_epoch(0)
                found.append(loaded(cache))
                readers_used = [type(one) for one in source._readers.values()]
            assert readers_used == [readers.LoopReader if options else readers.ObjectReader]
        source = UrlSource("s3://data/odd", **address)
        for key in "a b", "absent":
            try:
                assert source.read(key) == content(0) and next(iter(source._readers.values()))._proven
            except FileNotFoundError as error:
                found.append(str(error))
        source.close()
    assert found[0] == found[1] == sorted(content(number).hex() for number in range(len(keys))) and len(found) == 3
    return found


HEADERS = "ETag: x\r\nLast-Modified: Wed, 25 Nov 2026 09:00:00 GMT\r\n"
RIGHT = f"HTTP/1.1 200 OK\r\n{HEADERS}Connection: close\r\nContent-Length: 5\r\n\r\nright"


class Hostile(socketserver.BaseRequestHandler):
    """Handler that answers the first request correctly, and each later one with ``server.answer``."""

    def handle(self):
        self.request.recv(1 << 16)
        answer, self.server.answered = self.server.answer if self.server.answered else RIGHT, True
        with contextlib.suppress(OSError):
            self.request.sendall(answer.encode())
            while answer is not RIGHT:
                time.sleep(0.05)
                self.request.sendall(b"x" * self.server.more)


def errors_from_hostile_servers():
    """Return the errors for endless, too large and trickling answers, and for a redirect out of the web."""
    found = []
    for answer, more, error in (
        (f"HTTP/1.1 200 OK\r\n{HEADERS}Transfer-Encoding: chunked\r\n\r\n", 1 << 20, OSError),
        (f"HTTP/1.1 200 OK\r\n{HEADERS}Content-Length: {1 << 62}\r\n\r\n", 1 << 20, OSError),
        (f"HTTP/1.1 200 OK\r\n{HEADERS}Content-Length: 1000000\r\n\r\n", 1, TimeoutError),
        ("HTTP/1.1 200 OK\r\nServer: ", 1, TimeoutError),
        ("HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n", 0, OSError),
    ):
        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Hostile) as server:
            server.daemon_threads, server.block_on_close = True, False
            server.answer, server.more, server.answered = answer, more, False
            threading.Thread(target=server.serve_forever, daemon=True).start()
            address = {"endpoint_url": f"http://127.0.0.1:{server.server_address[1]}", "key": "k", "secret": "s"}
            source = UrlSource("s3://data", keys=["x"], timeout=1, largest=2_000_000, **address)
            assert source.read("x") == b"right"
            began = time.monotonic()
            try:
                source.read("x")
            except error:
                found.append(error.__name__)
            assert time.monotonic() - began < 30
            source.close()
            server.shutdown()
    assert len(found) == 5
    return found


def program_what_fails(folder):
    with bucket(3) as (_, source):
        missing = UrlSource("s3://data/samples", keys=["000", "absent"], **source._options)
        with GrowingCache(missing, folder / "absent", 4e6, retries=1, decode=bytes.hex) as cache:
            cache.set_epoch(0)
            found = loaded(cache)
        wrong = UrlSource("s3://other", **source._options)
        with GrowingCache(wrong, folder / "other", 4e6, retries=1) as cache:
            try:
                cache.set_epoch(0)
            except CacheError as error:
                found.append(str(error))
    once = {"config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 5}, "key": "k", "secret": "s"}
    away = UrlSource("s3://data", endpoint_url="http://127.0.0.1:9", **once)
    with GrowingCache(away, folder / "away", 4e6, retries=1) as cache:
        try:
            cache.set_epoch(0)
        except CacheError as error:
            assert "fetching fails" in str(error) and "connect" in str(error).lower(), error
            found.append("not there")
    assert found[-1] == "not there"
    return found + errors_from_hostile_servers()
