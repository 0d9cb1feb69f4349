"""Sources of samples: real files, a real web server, and fsspec's memory."""

import contextlib
import itertools
import re
import select
import socketserver
import sys
import threading
import time
import zipfile

import fsspec
import pytest

from ftloader.cache import Share, UrlSource, readers, sources
from tests.unit.loader.cache.sources import Numbered, check, content, keys_of


def fill(directory, count=6, size=2000):
    (directory / "deep" / "er").mkdir(parents=True)
    for number in range(count):
        key = f"deep/er/{number} ü%.bin" if number % 2 else f"{number}.bin"
        (directory / key).write_bytes(content(key, size))


def everything(source):
    return {key: bytes(source.read(key)) for key in source.keys()}


def test_a_directory(tmp_path):
    fill(tmp_path)
    source = UrlSource(str(tmp_path))
    assert (
        everything(source) == {key: content(key, 2000) for key in source.keys()}
        and len(everything(source)) == 6
    )
    assert everything(UrlSource(f"file://{tmp_path}/")) == everything(source)


def test_a_whole_archive_and_a_directory_in_it(tmp_path):
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for key in ("0.bin", "deep/er/1.bin"):
            file.writestr(key, content(key, 300))
    assert everything(UrlSource(f"zip://::{archive}")) == {
        k: content(k, 300) for k in ("0.bin", "deep/er/1.bin")
    }
    assert everything(UrlSource(f"zip://deep::{archive}")) == {
        "er/1.bin": content("deep/er/1.bin", 300)
    }


def test_keys_that_only_the_first_listing_would_see_are_refused(tmp_path):
    with pytest.raises(TypeError, match="keys must be a list .* not an iterator"):
        UrlSource(str(tmp_path), (f"{number}.bin" for number in range(3)))


WRAPPERS = (
    "simplecache:: filecache:: blockcache:: async_wrapper:: simplecache::async_wrapper:: "
    "simplecache::file://"
)


@pytest.mark.parametrize("chain", ["", "file://", *WRAPPERS.split()])
def test_no_key_leads_out_of_the_address(tmp_path, chain):
    (tmp_path / "data").mkdir()
    for name in ("secret", "data/..bin"):
        (tmp_path / name).write_bytes(b"1")
    for key in ("../secret", "data/../../secret", ".."):
        with pytest.raises(ValueError, match="leads out of"):
            UrlSource(f"{chain}{tmp_path / 'data'}", [key]).read(key)
    with pytest.raises(FileNotFoundError):
        UrlSource(f"{chain}{tmp_path / 'data'}").read(str(tmp_path / "secret"))
    assert everything(UrlSource(f"{chain}{tmp_path / 'data'}")) == {"..bin": b"1"}


@pytest.mark.parametrize("chain", ["", "simplecache::"])
def test_a_name_as_any_other_where_a_store_has_no_directories(chain):
    fsspec.filesystem("memory").pipe_file("/bucket/x/../y", b"2")  # as in s3
    assert everything(UrlSource(f"{chain}memory://bucket")) == {"x/../y": b"2"}


def test_a_file_that_is_not_as_long_as_the_listing_said(tmp_path):
    fill(tmp_path)
    source = UrlSource(str(tmp_path))
    list(source.keys())
    (tmp_path / "0.bin").write_bytes(b"short")
    with pytest.raises(OSError, match="0.bin has 5 bytes, and 2000 by the store's listing"):
        source.read("0.bin")
    list(source.keys())
    assert source.read("0.bin") == b"short"


either_client = pytest.mark.parametrize(
    "options", [{}, {"block_size": 1 << 20}], ids=["own", "fsspec"]
)


@either_client
def test_a_web_server_is_listed_and_read_by_each_thread_on_its_own(ready, server, options):
    fill(server.directory)
    keys = [f"{number}.bin" for number in (0, 2, 4)]
    source = UrlSource(server.address, keys * 2, **options)
    both = threading.Barrier(3)

    class Together(Numbered):
        def keys(self):
            return source.keys()

        def read(self, key):
            both.wait(60)  # so that each of three threads reads
            return source.read(key)

        def close(self):
            source.close()

    cache = ready(Together(3), fetchers=3, min_samples=3)
    check(cache)
    assert sorted(keys_of(cache)) == keys and len(server.threads) == 3  # a connection each
    assert len(source._readers) == 3
    cache.close()
    assert source._readers == {}
    listed = UrlSource(server.address)
    assert {"0.bin", "2.bin"} <= set(listed.keys())
    listed.close()


@either_client
def test_a_web_server_that_cuts_answers_short_or_has_none(server, options):
    fill(server.directory)
    source = UrlSource(server.address, ["0.bin"], **options)
    server.failing = {"/0.bin": "cut short"}
    with pytest.raises(Exception, match="IncompleteRead|payload is not completed"):
        source.read("0.bin")
    server.failing = {}
    assert source.read("0.bin") == content("0.bin", 2000)
    with pytest.raises(FileNotFoundError):
        source.read("none")
    source.close()


def test_redirects_and_connections_that_the_server_has_closed(server):
    fill(server.directory)
    source = UrlSource(server.address)
    server.hangs_up = True
    assert source.read("0.bin") == source.read("moved/0.bin") == content("0.bin", 2000)
    assert source.read("deep/er/1 ü%25.bin") == content("deep/er/1 ü%.bin", 2000)
    with pytest.raises(OSError, match="redirects more than 5 times"):
        source.read("moved")
    source.close()


@either_client
def test_a_web_server_that_stalls(server, options):
    fill(server.directory)
    server.hold = threading.Event()
    source = UrlSource(server.address, ["0.bin"], timeout=0.2, **options)
    with pytest.raises(TimeoutError):
        source.read("0.bin")
    server.hold.set()
    server.hold = None
    while True:
        with contextlib.suppress(TimeoutError):  # a slow machine's
            assert source.read("0.bin") == content("0.bin", 2000)
            break
    source.close()


@pytest.fixture
def hostile():
    """Return ``hostile(pieces)``, which returns the address of a server
    that answers any request with *pieces*.
    """
    servers = []

    def serve(pieces):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                self.request.recv(1 << 16)
                with contextlib.suppress(OSError):
                    for piece in pieces():
                        self.request.sendall(piece)

        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield serve
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(headers, body=tuple, status="200 OK"):
    return lambda: itertools.chain([f"HTTP/1.1 {status}\r\n{headers}\r\n\r\n".encode()], body())


def dripping(first=b""):
    yield first
    while True:
        time.sleep(0.05)
        yield b"x"


LATE = "not all of it came within 0.5 seconds"
CHUNK = b"1\r\nx\r\n0\r\n"
MORE, MIB = "has more than 2000000 bytes", bytes(1 << 20)


@pytest.mark.parametrize(
    ("pieces", "error"),
    [
        (answer("Server: x", lambda: itertools.repeat(MIB)), MORE),
        (
            answer(
                "Transfer-Encoding: chunked",
                lambda: itertools.repeat(b"100000\r\n" + MIB + b"\r\n"),
            ),
            MORE,
        ),
        (
            answer("Transfer-Encoding: chunked", lambda: [b"7fffffffffffffff\r\n", MIB]),
            "IncompleteRead",
        ),
        (answer(f"Content-Length: {1 << 62}", lambda: [MIB]), MORE),
        (answer("Content-Length: 10", lambda: [b"only"]), "IncompleteRead"),
        (answer("Content-Length: 1000000", dripping), LATE),
        (lambda: dripping(b"HTTP/1.1 200 OK\r\nServer: "), LATE),
        (answer("Transfer-Encoding: chunked", lambda: dripping(b"4;")), LATE),
        (
            answer(
                "Transfer-Encoding: chunked",
                lambda: itertools.chain([CHUNK], itertools.repeat(b"X: y\r\n")),
            ),
            LATE,
        ),
        (lambda: itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n"), LATE),
        (answer("Location: /x", lambda: time.sleep(0.2) or (), status="302 Found"), LATE),
        (
            answer("Content-Length: 4\r\nContent-Encoding: gzip", lambda: [b"\x1f\x8b\x08\x00"]),
            "encoded, as gzip",
        ),
        (
            answer("Location: file:///etc/passwd?secret", status="302 Found"),
            "redirects from http to 'file:///etc/passwd'",
        ),
        (answer("Location: ftp://127.0.0.1/", status="301 Moved"), "redirects from http to 'ftp:"),
        (answer("Location: http://[", status="301 Moved"), "Invalid IPv6 URL"),
        (answer("X: y\r\n" * 200), "more than 100 headers"),
        (lambda: [b"\0" * 100_000], "LineTooLong|BadStatusLine|got more than"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.slow(cases=5)
def test_a_web_server_that_is_hostile(hostile, pieces, error):
    timeout = 0.5 if error == LATE else 60
    source = UrlSource(hostile(pieces), ["x"], timeout=timeout, largest=2_000_000)
    with pytest.raises(Exception) as caught:
        source.read("x?signature=secret")
    text = f"{type(caught.value).__name__}: {caught.value}"
    assert re.search(error, text) and "secret" not in text
    source.close()


def test_what_a_server_sends_too_much_is_no_answer_to_the_next_request(hostile):
    """The server sends a second whole answer after the first, on the same connection."""
    more = threading.Event()

    def pieces():
        yield from answer("Content-Length: 5", lambda: [b"right"])()
        assert more.wait(60)
        yield from answer("Content-Length: 5", lambda: [b"wrong"])()

    source = UrlSource(hostile(pieces), ["a", "b"])
    assert source.read("a") == b"right"
    (reader,) = source._readers.values()
    (kept,) = reader._connections.values()
    more.set()
    select.select([kept.sock], [], [])  # it has come
    assert source.read("b") == b"right"
    source.close()


@pytest.mark.slow
def test_redirects_to_ever_other_places_keep_few_connections(hostile):
    places = [hostile(answer("Content-Length: 1", lambda: [b"x"])) for _ in range(10)]
    source = UrlSource("http://127.0.0.1", keys=[])
    source._root = ""
    for place in places:
        assert source.read(place) == b"x"
    (reader,) = source._readers.values()
    assert len(reader._connections) == 2
    source.close()


def test_no_redirect_from_https_to_http(monkeypatch):
    class Answer:
        status, reason = 302, "Found"

        def getheader(self, name, default=None):
            return "http://elsewhere/x" if name == "Location" else default

    monkeypatch.setattr(readers.WebReader, "_get", lambda *_: (Answer(), b""))
    with pytest.raises(OSError, match="redirects from https to 'http://elsewhere/x'"):
        UrlSource("https://somewhere", ["x"]).read("x")


@either_client
def test_keys_that_a_client_of_the_web_would_change(server, options):
    """The standard library drops line breaks and tabs from an address,
    and everything after a "#".
    """
    keys = ["a#1", "a#2", "a\nb", "a\tb", "\ra", "a b"]
    for key in (*keys, "a", "ab"):
        (server.directory / key).write_bytes(content(key, 300))
    source = UrlSource(server.address, [*keys, "\udcff"], **options)
    assert [source.read(key) for key in keys] == [content(key, 300) for key in keys]
    with pytest.raises(UnicodeEncodeError):  # no address has it
        source.read("\udcff")
    source.close()


def test_a_page_that_links_to_itself(server):
    (server.directory / "deep").mkdir()
    for page, links in (
        ("", "0.bin#x 0.bin a%231 deep/ #top ?C=N;O=D"),
        ("deep/", "1.bin #top ?C=N;O=D ?C=S#top"),
    ):
        text = "".join(f'<a href="{link}">{link}</a>' for link in links.split())
        (server.directory / page / "index.html").write_text(text)
    for key in ("0.bin", "a#1", "deep/1.bin"):
        (server.directory / key).write_bytes(content(key, 300))
    source = UrlSource(server.address)
    assert everything(source) == {
        "0.bin": content("0.bin", 300),
        "a%231": content("a#1", 300),
        "deep/1.bin": content("deep/1.bin", 300),
    }
    source.close()


def test_a_page_that_lists_other_places(server):
    fill(server.directory)
    (server.directory / "index.html").write_text(
        '<a href="/elsewhere/9.bin">9</a> <a href="/deep/in.bin">in</a>'
    )
    (server.directory / "deep" / "index.html").write_text(
        '<a href="/0.bin">0</a> <a href="in.bin">in</a>'
    )
    source = UrlSource(f"{server.address}/deep/")
    assert list(source.keys()) == ["in.bin"]
    source.close()


def test_a_missing_package_is_named_with_a_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(ImportError, match="(?i)s3fs.*pip install.*'remote' what s3 needs"):
        UrlSource("s3://bucket/samples")


def test_shares_are_the_whole():
    source = Numbered(10)
    shares = [list(Share(source, index, 3).keys()) for index in range(3)]
    assert sorted(sum(shares, [])) == sorted(source.keys()) and [
        len(share) for share in shares
    ] == [4, 3, 3]
    assert Share(source, 1, 3).read("x") == content("x", 1000)
    with pytest.raises(ValueError, match="from 0 to 2, not 3"):
        Share(source, 3, 3)
    sources.close_source(Share(source, 0, 1))
