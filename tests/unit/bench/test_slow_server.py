"""The server of remote samples: what it answers, when, and that it goes with whoever started it."""

import http.client
import signal
import socket
import subprocess
import sys
import zlib

import psutil
import pytest

from ftbench.data.slow_server import content, slow_server
from tests.processes import assert_gone

SIZE = 5000


@pytest.fixture(scope="module")
def server():
    with slow_server(0.0, SIZE) as running:
        yield running


def ask(server, target: str, method: str = "GET") -> tuple[int, bytes, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection(server.removeprefix("http://"))
    connection.request(method, target)
    answer = connection.getresponse()
    found = answer.status, answer.read(), answer.headers
    connection.close()
    return found


def test_samples_are_those_of_their_number_and_do_not_compress():
    data = content(3, 100_000)
    assert len(data) == 100_000 and content(3, 100_000) == data != content(4, 100_000)
    assert len(zlib.compress(data, 9)) > 0.99 * len(data)


def test_what_is_there_and_what_is_not(server):
    status, body, headers = ask(server, "/samples/7")
    assert (status, body, headers["Content-Length"]) == (200, content(7, SIZE), str(SIZE))
    assert (
        ask(server, "/")[0] == ask(server, "/samples/x")[0] == ask(server, "/samples/1/2")[0] == 404
    )
    assert ask(server, "/samples/1", method="DELETE")[0] == 404


def test_a_connection_serves_requests_in_their_order(server):
    """Two at once (pipelined), then what is no request."""
    with socket.create_connection(("127.0.0.1", int(server.rpartition(":")[2]))) as connection:
        connection.sendall(
            b"GET /samples/1 HTTP/1.1\r\n\r\nGET /samples/2 HTTP/1.1\r\n\r\nnonsense\r\n\r\n"
        )
        received = b""
        while b"404 Not Found" not in received:
            received += connection.recv(1 << 16)
        assert received.index(content(1, SIZE)) < received.index(content(2, SIZE))


def test_it_ends_with_the_context_and_with_an_exception():
    before = psutil.Process().children()
    with pytest.raises(LookupError), slow_server(0.0, SIZE):
        (process,) = (each for each in psutil.Process().children() if each not in before)
        raise LookupError
    assert_gone([process])


KILLED = """
import sys
from ftbench.data.slow_server import slow_server
with slow_server(0.0, 100):
    print(flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_it_ends_with_a_parent_that_is_killed(environment):
    with subprocess.Popen(
        [sys.executable, "-c", KILLED],
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout.readline()
        (process,) = psutil.Process(parent.pid).children()
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        assert_gone([process])
