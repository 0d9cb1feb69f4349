# /// script
# dependencies = ["s3fs==2026.9.0", "obstore==0.10.1", "moto[server]==5.2.5"]
# ///
"""A growing cache of a bucket, from a real server that speaks S3's protocol (moto's)."""

import contextlib
import http.server
import os
import socketserver
import threading
import time
import warnings

import boto3
from moto.server import ThreadedMotoServer
from torch.utils.data import DataLoader

from ftloader.cache import CacheError, GrowingCache, UrlSource, fetchers, readers

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
            UrlSource(
                "s3://data/samples",
                endpoint_url=f"http://{host}:{port}",
                key="k",
                secret="s",
                timeout=20,
            ),
        )
    finally:
        server.stop()


def put(client, numbers):
    for number in numbers:
        client.put_object(Bucket="data", Key=f"samples/{number:03}", Body=content(number))


def content(number):
    return bytes([number]) * (1000 + number)


def loaded(cache):
    return sorted(
        sample for batch in DataLoader(cache, batch_size=7, num_workers=2) for sample in batch
    )


def program_bucket_that_grows(folder):
    fetched = []
    with bucket(40) as (client, source):
        for count in 40, 50:
            put(client, range(count))
            with GrowingCache(
                source, folder, 4e6, fetchers=4, min_samples=count, decode=bytes.hex
            ) as cache:
                cache.set_epoch(0)
                assert loaded(cache) == [content(number).hex() for number in range(count)]
                fetched.append(cache.statistics().fetched)
    return fetched


def region_of_another_bucket():
    """Read a bucket of another region, whose address is AWS's as far as the source knows.
    Return obstore's region.
    """
    with bucket(0) as (client, source):
        elsewhere = {"LocationConstraint": "eu-west-1"}
        client.create_bucket(Bucket="elsewhere", CreateBucketConfiguration=elsewhere)
        client.put_object(Bucket="elsewhere", Key="x", Body=content(1))
        os.environ["AWS_ENDPOINT_URL"] = source._options["endpoint_url"]
        try:
            away = UrlSource("s3://elsewhere", keys=["x"], key="k", secret="s")
            assert away.read("x") == content(1)
        finally:
            del os.environ["AWS_ENDPOINT_URL"]
        (reader,) = away._readers.values()
        assert type(reader) is readers.ObjectReader
        away.close()
        return away._bucket.config["region"]


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
                source,
                folder / str(len(options)),
                4e6,
                fetchers=1,
                min_samples=len(keys),
                decode=bytes.hex,
            ) as cache:
                cache.set_epoch(0)
                found.append(loaded(cache))
                readers_used = [type(one) for one in source._readers.values()]
            assert readers_used == [readers.LoopReader if options else readers.ObjectReader]
        source = UrlSource("s3://data/odd", **address)
        for key in "a b", "absent":
            try:
                assert source.read(key) == content(0)
                (reader,) = source._readers.values()
                assert reader._s3fs is None
            except FileNotFoundError as error:
                found.append(str(error))
        source.close()
    assert region_of_another_bucket() == "eu-west-1"
    assert (
        found[0] == found[1] == sorted(content(number).hex() for number in range(len(keys)))
        and len(found) == 3
    )
    return found


HEADERS = "ETag: x\r\nLast-Modified: Wed, 25 Nov 2026 09:00:00 GMT\r\n"
RIGHT = f"HTTP/1.1 200 OK\r\n{HEADERS}Connection: close\r\nContent-Length: 5\r\n\r\nright"


class Hostile(socketserver.BaseRequestHandler):
    """Handler that answers the first request correctly,
    and each later one with ``server.answer``.
    """

    def handle(self):
        self.request.recv(1 << 16)
        answer, self.server.answered = self.server.answer if self.server.answered else RIGHT, True
        with contextlib.suppress(OSError):
            self.request.sendall(answer.encode())
            while answer is not RIGHT:
                time.sleep(0.05)
                self.request.sendall(b"x" * self.server.more)


def errors_from_hostile_servers():
    """Return the errors for endless, too large and trickling answers,
    and for a redirect out of the web.
    """
    found = []
    for answer, more, error in (
        (f"HTTP/1.1 200 OK\r\n{HEADERS}Transfer-Encoding: chunked\r\n\r\n", 1 << 20, OSError),
        (f"HTTP/1.1 200 OK\r\n{HEADERS}Content-Length: {1 << 62}\r\n\r\n", 1 << 20, OSError),
        (f"HTTP/1.1 200 OK\r\n{HEADERS}Content-Length: 1000000\r\n\r\n", 1, TimeoutError),
        ("HTTP/1.1 200 OK\r\nServer: ", 1, TimeoutError),
        (
            "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
            0,
            OSError,
        ),
    ):
        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Hostile) as server:
            server.daemon_threads, server.block_on_close = True, False
            server.answer, server.more, server.answered = answer, more, False
            threading.Thread(target=server.serve_forever, daemon=True).start()
            address = {
                "endpoint_url": f"http://127.0.0.1:{server.server_address[1]}",
                "key": "k",
                "secret": "s",
            }
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
    once = {
        "config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 5},
        "key": "k",
        "secret": "s",
    }
    away = UrlSource("s3://data", endpoint_url="http://127.0.0.1:9", **once)
    with GrowingCache(away, folder / "away", 4e6, retries=1) as cache:
        try:
            cache.set_epoch(0)
        except CacheError as error:
            assert "fetching fails" in str(error) and "connect" in str(error).lower(), error
            found.append("not there")
    assert found[-1] == "not there"
    return found + errors_from_hostile_servers()


LISTING = """<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{}</ListBucketResult>"""
ENTRY = "<Contents><Key>samples/{:03}</Key><Size>{}</Size><LastModified>2026-11-25T09:00:00.000Z</LastModified></Contents>"
ERROR = (
    """<?xml version="1.0"?><Error><Code>{}</Code><Message>as the test wants it</Message></Error>"""
)
RIGHT_ALWAYS = "", 0, False
CODES = {401: "InvalidToken", 403: "AccessDenied", 404: "NoSuchBucket", 429: "TooManyRequests"} | {
    500: "InternalError",
    503: "ServiceUnavailable",
}


class Objects(http.server.BaseHTTPRequestHandler):
    """Handler of a bucket with three objects. ``server.failing`` has the path that fails,
    and the answer's status.
    """

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path, _, query = self.path.partition("?")
        failing, status, with_text = self.server.failing
        if path.rstrip("/") == failing:
            body = ERROR.format(CODES[status]).encode() if with_text else b""
        elif query.startswith("list-type=2"):
            status, body = (
                200,
                LISTING.format(
                    "".join(ENTRY.format(n, len(content(n))) for n in range(3))
                ).encode(),
            )
        else:
            status, body = 200, content(int(path[-3:]))
        self.send_response(status)
        for name, value in {"Content-Length": len(body), "ETag": "x"}.items():
            self.send_header(name, str(value))
        self.send_header("Last-Modified", "Wed, 25 Nov 2026 09:00:00 GMT")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def until(cache, condition):
    with cache._writer.store.changed:
        assert cache._writer.store.changed.wait_for(lambda: condition(cache.statistics()), 60)


def told(cache, epoch):
    """Set the epoch. Return the warnings and the error, in one string."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            cache.set_epoch(epoch)
        except CacheError as error:
            return str(error)
    return " ".join(str(one.message) for one in caught if "the cache" in str(one.message))


def program_a_bucket_that_fails(folder):
    """Check the rows of s3 in the table of docs/cache.md."""
    os.environ["AWS_MAX_ATTEMPTS"] = "1"  # botocore's own retries take seconds
    fetchers.FIRST_PAUSE, fetchers.LONGEST_PAUSE = 0.001, 0.01
    found = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Objects) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = {
            "endpoint_url": f"http://127.0.0.1:{server.server_address[1]}",
            "key": "k",
            "secret": "s",
        }
        for number, (status, with_text) in enumerate(
            (status, text) for status in CODES for text in (True, False)
        ):
            reason = "as the test wants it" if with_text else http.HTTPStatus(status).phrase
            listing, place = ("/data", status, with_text), folder / str(number)
            server.failing = listing
            with GrowingCache(
                UrlSource("s3://data/samples", **address), place / "a", 4e6, retries=1
            ) as cache:
                first = told(cache, 0)
            assert "fetching fails" in first and reason in first, (status, first)
            server.failing = RIGHT_ALWAYS
            source = UrlSource("s3://data/samples", **address)
            with GrowingCache(source, place / "b", 4e6, min_samples=3, decode=bytes.hex) as cache:
                assert told(cache, 0) == ""
                server.failing = listing
                cache._writer.fetchers.look_again()
                until(cache, lambda now: now.failed_listings)
                later = told(cache, 1)
                assert "could not list its source" in later and reason in later, (status, later)
                server.failing = RIGHT_ALWAYS
                until(cache, lambda _: cache._writer.fetchers.complete)
                assert told(cache, 2) == ""
                found.append(loaded(cache))
            server.failing = "/data/samples/001", status, with_text
            source = UrlSource("s3://data/samples", **address)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                with GrowingCache(source, place / "c", 4e6, retries=1, min_samples=2) as cache:
                    until(cache, lambda _: cache._writer.fetchers.idle)
                    statistics = cache.statistics()
            reason = "there is no object" if status == 404 else http.HTTPStatus(status).phrase
            assert any(reason in str(one.message) for one in caught), (status, caught)
            found.append([statistics.samples, statistics.failed])
        server.shutdown()
    return found
