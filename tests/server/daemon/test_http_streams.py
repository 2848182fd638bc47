"""Streams of the HTTP server: frames, their bounds, and clients that do not read them."""

import contextlib
import http.client
import itertools
import socket
import time

import pytest

from stoker.server.daemon import http_server
from stoker.server.daemon.http_server import MAX_STREAMS, Answer, HttpServer

PATIENCE_S = 20
FRAME = b"x" * 2**16


@pytest.fixture
def serve(monkeypatch):
    """Serve a stream of frames at /s, and a word at all other paths; return what connects to it."""
    monkeypatch.setattr(http_server, "FRAME_S", 0.01)
    with contextlib.ExitStack() as stack:

        def begin(frames):
            def answer(request):
                if request.path == "/s":
                    return Answer(200, b"begin ", "text/event-stream", frames=frames)
                return Answer(200, b"a word\n")

            server = HttpServer("127.0.0.1", 0, answer)
            stack.callback(server.close)

            def ask(path, method="GET"):
                sock = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
                stack.callback(sock.close)
                sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                return sock

            return ask

        yield begin


def read_until(sock, end):
    data = b""
    while end not in data:
        part = sock.recv(65536)
        assert part, data
        data += part
    return data


def read(sock, size):
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        assert part, data[:100]
        data += part
    return data


def whole(sock):
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while part := sock.recv(2**20):
            data += part
    return data


def status(sock):
    return int(whole(sock).split()[1])


def test_a_stream_has_no_end_and_its_frames_in_order(serve):
    numbers = itertools.count()
    sock = serve(lambda: b"<%d>" % next(numbers))("/s")
    data = read_until(sock, b"<5>")
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"Content-Length" not in head
    assert body.startswith(b"begin <0><1><2><3><4><5>")


def test_a_head_alone_is_no_stream(serve):
    head, _, body = whole(serve(lambda: b"x")("/s", "HEAD")).partition(b"\r\n\r\n")
    assert (head.split()[1], body) == (b"200", b"")


def test_there_are_so_many_streams_and_each_that_ends_makes_room(serve):
    ask = serve(lambda: b"frame")
    streams = [ask("/s") for _ in range(MAX_STREAMS)]
    for sock in streams:
        read_until(sock, b"frame")
    further = ask("/s")
    refused = read_until(further, b"\r\n\r\n")
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert (refused + whole(further)).endswith(b"%d pages are open, the limit\n" % MAX_STREAMS)
    assert status(ask("/s", "HEAD")) == 503
    assert whole(ask("/metrics")).endswith(b"a word\n"), "streams take no place of other requests"
    streams[0].close()
    deadline = time.monotonic() + PATIENCE_S
    while status(ask("/s", "HEAD")) != 200:
        assert time.monotonic() < deadline


def test_a_client_that_says_more_ends_its_stream(serve):
    sock = serve(lambda: b"frame")("/s")
    read_until(sock, b"frame")
    sock.sendall(b"GET /s HTTP/1.1\r\n\r\n")
    whole(sock)


def test_a_client_that_does_not_read_delays_nobody_and_is_disconnected(serve, clock, monkeypatch):
    monkeypatch.setattr(http_server, "MAX_STREAMS", 2)
    ask = serve(lambda: FRAME)
    slow, other = ask("/s"), ask("/s")
    read_until(slow, b"begin ")
    read_until(other, b"begin ")
    steps = 0
    while status(ask("/s", "HEAD")) == 503:  # until the slow one has lost its place
        assert steps < 10_000
        assert whole(ask("/livez")).endswith(b"a word\n")
        clock.now += http_server.REQUEST_S / 20
        assert read(other, len(FRAME)) == FRAME, "the other stream goes on"
        steps += 1
    assert steps > 20, "it had REQUEST_S at least"
    clock.now += http_server.REQUEST_S / 20
    assert read(other, len(FRAME)) == FRAME, "and goes on"
    whole(slow)


def test_a_frame_that_cannot_be_made_ends_its_stream_alone(serve):
    ask = serve(lambda: 1 / 0)
    assert whole(ask("/s")).endswith(b"begin ")
    assert whole(ask("/livez")).endswith(b"a word\n")


def test_an_idle_stream_outlives_the_time_of_a_request(serve, clock):
    made = itertools.count()
    sock = serve(lambda: b"<%d>" % next(made))("/s")
    read_until(sock, b"begin ")
    for _ in range(3):
        clock.now += http_server.REQUEST_S * 2
        read_until(sock, b">")


def test_http_client_reads_a_stream(serve):
    port = serve(lambda: b"frame")("/word").getpeername()[1]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        connection.request("GET", "/s")
        answer = connection.getresponse()
        assert answer.read(len("begin frame")) == b"begin frame"
