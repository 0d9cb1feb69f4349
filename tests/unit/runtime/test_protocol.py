"""Whatever a peer sends, however slowly: a message, or Disconnected, in time."""

import socket
import threading

import pytest

from ftrun.errors import Disconnected
from ftrun.protocol import Channel, conforms


@pytest.fixture
def pair():
    """A channel and the socket at its other end."""
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    with theirs:
        yield channel, theirs
        channel.close()


def test_messages(pair):
    channel, peer = pair
    peer.sendall(b'{"a": 1}\n{"b"')
    assert channel.receive({}) == {"a": 1}
    peer.sendall(b": 2}\n")
    assert channel.receive({}, 60) == {"b": 2}
    peer.close()
    with pytest.raises(Disconnected, match="end of stream"):
        channel.receive({})


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 500_000,
        b'{"a":' * 500_000,
        b"[]",
        b"{",
        b"1",
        b"",
        b"\xff",
        b'{"a": ' + b"9" * 10_000 + b"}",
    ],
)
def test_lines_that_are_no_messages(pair, line):
    channel, peer = pair
    sender = threading.Thread(target=peer.sendall, args=(line + b"\n",))
    sender.start()
    try:
        with pytest.raises(Disconnected, match="not a message"):
            channel.receive({}, 60)
    finally:
        sender.join()


def test_a_peer_that_drips_has_no_more_time_than_others(pair):
    channel, peer = pair
    enough = threading.Event()

    def drip():
        for _ in range(3000):  # half a minute
            if enough.wait(0.01):
                return
            peer.send(b"x")
        peer.close()

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        assert channel.receive({}, 0.3) is None
    finally:
        enough.set()
        dripping.join()


def test_a_peer_whose_data_never_cease_neither(pair):
    channel, peer = pair
    peer.sendall(b"x" * 1000)
    assert channel.receive({}, 0.0) is None


@pytest.mark.parametrize(
    ("value", "form", "fits"),
    [
        (1, int, True),
        (True, int, False),
        (True, bool, True),
        (1 << 63, int, False),
        (float("nan"), float, False),
        (float("inf"), (int, float), False),
        (None, (str, type(None)), True),
        (["a"], [str], True),
        (["a", 1], [str], False),
        ({"a": 1, "more": 2}, {"a": int}, True),
        ({"more": 2}, {"a": int}, False),
        ([], {"a": int}, False),
        ({"numpy": "2"}, {str: str}, True),
        ({"numpy": 2}, {str: str}, False),
        ({}, {str: str}, True),
        ({"a": {"b": ["x"]}}, {"a": {"b": [str]}}, True),
    ],
)
def test_forms(value, form, fits):
    assert conforms(value, form) is fits
