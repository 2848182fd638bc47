"""The page: its files and their headers, who may read it, and what its events say."""

import base64
import contextlib
import http.client
import json
import re
import socket
import stat
import time
import tracemalloc
import types

import pytest
from commands import call

from stoker.protocol import messages
from stoker.server.daemon.metrics_endpoint import Endpoint
from stoker.server.daemon.page.last_minute import POINTS, LastMinute
from stoker.server.daemon.page.recent_notes import (
    MAX_TEXT,
    MOST,
    RecentBadSamples,
    RecentWarnings,
)
from stoker.server.daemon.poller import TurnTimes
from stoker.server.daemon.snapshot import MOST_SESSIONS, MOST_WORKERS, Snapshot
from stoker.server.settings import logs
from stoker.server.settings.config_types import MetricsSection
from stoker.server.work.work_records import BadSample

PATIENCE_S = 20
TOKEN = "0123456789abcdef"
POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
FILES = {
    "/": "text/html; charset=utf-8",
    "/page.css": "text/css; charset=utf-8",
    "/page.js": "text/javascript; charset=utf-8",
    "/page.svg": "image/svg+xml",
}


@pytest.fixture
def serve():
    """Serve an endpoint without a daemon; return what asks it."""
    with contextlib.ExitStack() as stack:

        def begin(**settings):
            snapshot = Snapshot(time.monotonic(), "", {}, TurnTimes())
            endpoint = Endpoint(MetricsSection(address="0", **settings), lambda: snapshot)
            stack.callback(endpoint.close)

            def ask(path, method="GET", **fields):
                connection = http.client.HTTPConnection("127.0.0.1", endpoint.port, timeout=20)
                with contextlib.closing(connection):
                    connection.request(method, path, headers=fields)
                    answer = stack.enter_context(connection.getresponse())
                    body = b"" if answer.headers["Content-Length"] is None else answer.read()
                    return answer.status, answer.headers, body

            return ask

        yield begin


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("path", [*FILES, "/events"])
def test_each_path_forbids_what_the_page_does_not_need(serve, path):
    status, fields, _ = serve()(path)
    assert status == 200
    assert fields["Content-Type"] == FILES.get(path, "text/event-stream")
    assert fields["Content-Security-Policy"] == POLICY
    assert fields["X-Content-Type-Options"] == "nosniff"
    assert fields["Referrer-Policy"] == "no-referrer"
    assert fields["Cross-Origin-Resource-Policy"] == "same-origin"
    assert fields["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in fields


@pytest.mark.parametrize("path", [*FILES, "/metrics", "/livez", "/readyz", "/nothing"])
def test_head_is_get_without_the_body(serve, path):
    ask = serve()
    got, head = ask(path), ask(path, "HEAD")
    assert (head[0], head[2]) == (got[0], b"")
    same = lambda fields: {n: v for n, v in fields.items() if n != "Content-Length"}  # noqa: E731
    assert same(head[1]) == same(got[1])
    if path != "/metrics":  # it differs from one second to the next
        assert int(head[1]["Content-Length"]) == len(got[2])


def test_the_document_has_no_code_and_no_style_of_its_own_and_loads_only_from_its_host(serve):
    ask = serve()
    page = ask("/")[2].decode()
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page)
    assert re.findall(r"<script([^>]*)>(.*?)</script>", page, re.S) == [
        (' src="/page.js" defer', "")
    ]
    loaded = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert set(loaded) == FILES.keys() - {"/"}
    script = ask("/page.js")[2].decode()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", script)
    assert set(re.findall(r"https?://[^\"'\s]*", script)) == {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:9471", 200),
        ("127.0.0.1:9471", 200),
        ("[::1]:9471", 200),
        ("attacker.example", 403),
        ("127.0.0.1.attacker.example:9471", 403),
        ("192.168.1.7:9471", 403),
    ],
)
def test_without_a_token_requests_name_this_host(serve, host, status):
    ask = serve()
    for path in (*FILES, "/events"):
        assert ask(path, Host=host)[0] == status
    assert ask("/metrics", Host=host)[0] == 200


def basic(password, user="anyone"):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        (basic(TOKEN), 200),
        (basic(TOKEN, user=""), 200),
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN}", 200),
        (basic(TOKEN[:-1]), 401),
        (basic(""), 401),
        (f"Bearer {TOKEN}0", 401),
        ("Bearer é", 401),
        (f"Digest {TOKEN}", 401),
        ("Basic ?", 401),
        (TOKEN, 401),
        ("", 401),
    ],
)
def test_with_a_token_each_request_for_the_page_needs_it(serve, token_file, shown, status):
    ask = serve(page_token=str(token_file))
    for path in (*FILES, "/events"):
        found, fields, body = ask(path, Authorization=shown.encode())
        assert found == status
        if status == 401:
            assert fields["WWW-Authenticate"] == 'Basic realm="stoker", charset="UTF-8"'
            assert (
                body == b"the page needs the token in the file metrics.page_token, as a password\n"
            )
    assert ask("/metrics")[0] == ask("/livez")[0] == 200


@pytest.mark.parametrize("settings", [{"page": "off"}, {"page": "off", "page_token": "/none"}])
def test_a_page_can_be_switched_off(serve, settings):
    ask = serve(**settings)
    for path in (*FILES, "/events"):
        assert ask(path)[0] == 404


def test_where_other_hosts_reach_it_there_is_no_page_without_a_token(token_file):
    snapshot = Snapshot(time.monotonic(), "", {}, TurnTimes())
    for token, expected in (("", b"404"), (str(token_file), b"401")):
        settings = MetricsSection(address="0.0.0.0:0", page_token=token)
        endpoint = Endpoint(settings, lambda: snapshot)
        with contextlib.closing(endpoint):
            named = f"http://{socket.gethostname()}:{endpoint.port}/"
            assert endpoint.page == (named if token else "")
            with socket.create_connection(("127.0.0.1", endpoint.port), PATIENCE_S) as sock:
                sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answer = sock.recv(4096)
        assert answer.split()[1] == expected
        assert b"metrics.page_token" in answer


def serve_command(tmp_path, *flags):
    """Run `stoker serve` with an endpoint that other hosts reach; return its status and error."""
    (tmp_path / "served.tar").touch()
    code, _, errors = call(
        "serve", f"--dataset=photos={tmp_path}/served.tar", f"--address=ipc://{tmp_path}/s",
        "--metrics-address=0.0.0.0:0", *flags,
    )  # fmt: skip
    return code, errors


@pytest.mark.parametrize("command", ["serve", "config"])
def test_a_page_for_other_hosts_without_a_token_is_refused_at_the_start(tmp_path, command):
    said = (
        'stoker: metrics.page = "on": expected metrics.page_token, the file with a token, because'
        " other hosts may reach metrics.address 0.0.0.0:0; name one, or let the endpoint listen at"
        " 127.0.0.1\n"
    )
    if command == "serve":
        assert serve_command(tmp_path, "--metrics-page=on") == (78, said)
        return
    file = tmp_path / "stoker.toml"
    file.write_text('[metrics]\naddress = "0.0.0.0:0"\npage = "on"\n[datasets]\nd = "d.tar"\n')
    (tmp_path / "d.tar").touch()
    code, _, errors = call("config", f"--config={file}")
    assert (code, errors) == (78, said)


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (None, 0, "No such file or directory; make one with: (umask 077; openssl rand -hex 16 >"),
        ("short\n", 0o600, "expected one word of at least 16 ASCII characters in"),
        ("two words of them all\n", 0o600, ", got 5 words; make one with"),
        ("", 0o600, ", got 0 words; make one with"),
        ("öööööööööööööööö\n", 0o600, "of at least 16 ASCII characters"),
        (f"{TOKEN}\n", 0o644, "or root that no other user can read or write, got owner"),
    ],
)
def test_a_token_that_cannot_be_used_is_refused_at_the_start(tmp_path, content, mode, said):
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
        path.chmod(mode)
        assert stat.S_IMODE(path.stat().st_mode) == mode
    code, errors = serve_command(tmp_path, f"--metrics-page-token={path}")
    assert code == 78
    assert errors.startswith("stoker: metrics.page_token: ")
    assert said in errors
    assert errors.count("\n") == 1
    assert TOKEN not in errors


# ---------------------------------------------------------------- events of a daemon


@contextlib.contextmanager
def events_of(port):
    """Yield a function that returns the first state for which a condition holds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    with contextlib.closing(connection), contextlib.ExitStack() as stack:
        connection.request("GET", "/events")
        lines = stack.enter_context(connection.getresponse())

        def state(holds=lambda _: True):
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline:
                word, _, data = lines.readline().partition(b": ")
                if word == b"event":
                    assert data == b"history\n"
                    lines.readline()
                if word == b"data" and holds(found := json.loads(data)):
                    return found
            raise AssertionError("no such state came")

        yield state


def test_events_say_who_reads_what_and_how_far(start, connect):
    running = start(metrics__address="0")
    client = connect(running.address).hello().attach()
    client.open()
    with events_of(running.daemon.metrics_port) as state:
        first = state(lambda now: now["sessions"])
        (session,) = first["sessions"]
        assert (session["state"], session["dataset"], session["pipeline"]) == (
            "open", "photos", "train",
        )  # fmt: skip
        assert (session["number"], session["rows"], session["returned_s"]) == (1, 10, -1.0)
        assert session["verdict"] == {
            "bound": "none", "text": "looking for a moment", "advice": "",
        }  # fmt: skip
        client.send(messages.Seek(1, 0, 0), messages.Credit(1, 2))
        batch = client.receive(messages.Ready)
        client.send(messages.Release([(batch.slot, batch.generation)]))
        (session,) = state(lambda now: now["sessions"][0]["returned_s"] >= 0)["sessions"]
        assert session["returned"] == 1
        assert session["announced"] >= 1
        second = connect(running.address).hello().attach()
        found = state(lambda now: len(now["sessions"]) == 2)
        assert found["sessions"][1]["number"] == 2
        assert found["sessions"][1]["verdict"]["text"] == "it has opened no stream"
        second.send(messages.Close())
        found = state(lambda now: len(now["sessions"]) == 1)
        assert (
            "memory.limit"
            in {one["name"]: one for one in found["limits"]}["memory for batches and pipelines"][
                "raised_by"
            ]
        )
        parts = [one["part"] for one in found["limits"]]
        assert parts == sorted(parts, reverse=True)
        assert (found["unready"], found["workers_up"]) == ("", 2)
        assert found["address"] == running.address


def test_the_loop_describes_sessions_only_while_a_page_is_open(start, connect, eventually):
    running = start(metrics__address="0")
    connect(running.address).hello().attach()
    eventually(lambda: running.daemon._snapshot.counters["sessions"] == 1)
    assert running.daemon._snapshot.sessions == ()
    with events_of(running.daemon.metrics_port) as state:
        state(lambda now: now["sessions"])
    eventually(lambda: running.daemon._snapshot.sessions == ())


def told(last_minute, now, time_s=0.0):
    """The points of the event with which a page begins."""
    word, data, end = last_minute.event(now, time_s).split(b"\n", 2)
    assert (word, end) == (b"event: history", b"\n")
    return json.loads(data.removeprefix(b"data: "))


def seen_at(now, workers=1, sessions=1):
    """A snapshot of workers that decode, and of sessions to which 7 batches were announced."""
    statuses = [types.SimpleNamespace(worker=n, state="decode") for n in range(workers)]
    counts = [(n, 7) for n in range(sessions)]
    return Snapshot(now, "", {}, TurnTimes(), workers=statuses, announced=counts)


def test_the_last_minute_has_a_point_each_half_second_and_ends():
    last = LastMinute()
    for number in range(500):
        last.add(seen_at(0.25 * number))
    points = told(last, now=125.0, time_s=1125.0)
    assert [one["time"] for one in points] == [1000 + 0.5 * n for n in range(124, 250)]
    assert points[0] == {"time": 1062.0, "workers": {"0": "decode"}, "sessions": {"0": 7}}
    assert told(last, now=190.0) == []


def test_the_last_minute_is_bounded_however_many_workers_there_are():
    last, empty = LastMinute(), LastMinute()
    tracemalloc.start()
    for number in range(2 * POINTS):
        last.add(seen_at(0.5 * number, workers=200, sessions=MOST_SESSIONS))
        empty.add(seen_at(0.5 * number, workers=0, sessions=0))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    points = told(last, now=0.5 * number)
    assert len(points) == len(told(empty, now=0.5 * number)) == POINTS
    assert {len(one["workers"]) for one in points} == {MOST_WORKERS}
    assert held < 4 * 2**20
    assert len(last.event(0.5 * number, time.time())) < 2**19


def test_a_page_that_is_opened_later_begins_with_what_was_before(start, connect, eventually):
    running = start(metrics__address="0")
    client = connect(running.address).hello().attach()
    client.open()
    client.send(messages.Seek(1, 0, 0), messages.Credit(1, 2))
    client.receive(messages.Ready)

    def points():
        with contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", running.daemon.metrics_port, timeout=PATIENCE_S)
        ) as connection:
            connection.request("GET", "/events")
            with connection.getresponse() as lines:
                assert [lines.readline() for _ in range(3)] == [
                    b"retry: 2000\n", b"\n", b"event: history\n",
                ]  # fmt: skip
                return json.loads(lines.readline().removeprefix(b"data: "))

    eventually(lambda: [one for one in points() if one["sessions"].get("1")])
    found = points()
    assert len(found) > 1
    assert set(found[-1]["workers"]) == {"1", "2"}
    times = [one["time"] for one in found]
    assert times == sorted(times)
    assert 0 < time.time() - times[-1] < PATIENCE_S


def test_the_last_warnings_are_bounded_and_show_no_secret():
    with contextlib.closing(RecentWarnings()) as warnings:
        for number in range(MOST + 1):
            logs.log("warning", "noted", number=number, token=b"secret", text="x" * 9999)
        logs.log("info", "not_kept")
        kept = warnings.newest_first()
    logs.log("error", "later")
    assert len(kept) == MOST
    assert warnings.newest_first() == kept
    assert kept[0]["event"] == "noted"
    assert kept[0]["facts"].startswith(f'number={MOST} token="<6 bytes>" text=xxx')
    assert len(kept[0]["facts"]) == MAX_TEXT


def test_the_last_bad_samples_are_bounded():
    samples = RecentBadSamples()
    samples.add("content:0", [BadSample(n, "image", "a.jpg", "r" * 9999) for n in range(2 * MOST)])
    kept = samples.newest_first()
    assert [one["id"] for one in kept] == list(range(2 * MOST - 1, MOST - 1, -1))
    assert len(kept[0]["reason"]) == MAX_TEXT
