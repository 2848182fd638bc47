"""Logs: one line an event, no secrets, and nothing waits for who does not read them."""

import io
import json
import os
import select
import threading

import pytest

from stoker.server.settings import logs
from stoker.server.settings.logs import Logs, RateLimit, log


def test_text():
    stream = io.StringIO()
    with Logs("info", "text", stream):
        log("info", "opened", stream="ab", seconds=0.12345678, reason="two words", n=3)
        log("debug", "invisible")
    [line] = stream.getvalue().splitlines()
    assert line[23:] == ' info opened stream=ab seconds=0.123457 reason="two words" n=3'


def test_json():
    stream = io.StringIO()
    with Logs("debug", "json", stream):
        log("warning", "session_lost", reason='a "quote"\n', time="no")
    found = json.loads(stream.getvalue())
    assert found.pop("time").endswith("+00:00")
    assert found == {"level": "warning", "event": "session_lost", "reason": 'a "quote"\n'}


def test_a_line_break_in_a_fact_makes_no_second_line():
    stream = io.StringIO()
    with Logs("info", "text", stream):
        log("info", "refused", reason="evil\n2026-01-01 error forged")
    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.parametrize("form", ["text", "json"])
def test_bytes_are_never_shown(form):
    stream = io.StringIO()
    with Logs("info", form, stream):
        log("info", "event", token=b"secret-secret-16")
    assert "secret" not in stream.getvalue()
    assert "<16 bytes>" in stream.getvalue()


def test_a_reader_that_does_not_read_makes_nobody_wait(monkeypatch):
    monkeypatch.setattr(logs, "CAPACITY", 10)
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "w") as stream:
        running = Logs("info", "text", stream)
        done = threading.Event()

        def flood():
            for _ in range(2000):
                log("info", "x" * 1000)
            done.set()

        flooding = threading.Thread(target=flood)
        flooding.start()
        assert done.wait(20)
        flooding.join()
        text = b""
        finish = threading.Thread(target=running.close, args=(20,))
        finish.start()
        while finish.is_alive():  # all of it is read: a writer that waits would hold the stream
            if select.select([reading], [], [], 0.05)[0]:
                text += os.read(reading, 65536)
        finish.join()
        while select.select([reading], [], [], 0)[0]:
            text += os.read(reading, 65536)
        assert b"log lines: standard error was full or not read" in text


def test_the_rate_limit_counts_what_it_suppresses():
    limit = RateLimit(burst=2, period_s=10)
    assert [limit.allow("a", now) for now in (0, 1, 2, 3, 9)] == [0, 0, None, None, None]
    assert limit.allow("b", 3) == 0
    assert limit.allow("a", 10) == 3
    assert limit.allow("a", 25) == 0
