"""Promises of guarantees.md about the web page, by an executed daemon; one serves all tests."""

import base64
import contextlib
import http.client
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from daemons import serving

from stoker.dataset import schema, write

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]
PATIENCE_S = 60
PATHS = ("/", "/page.css", "/page.js", "/page.svg", "/events")
TOKEN = "0123456789abcdef"
BASIC = base64.b64encode(f"anyone:{TOKEN}".encode()).decode()
KNOWN = {"Authorization": f"Bearer {TOKEN}"}

Ask = Callable[..., http.client.HTTPResponse]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a page that asks for a token."""
    folder = tmp_path_factory.mktemp("page")
    write(folder / "packed", [schema.label()], [{"label": n} for n in range(4)])
    token = folder / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    flags = f"--dataset=tiny={folder}/packed", f"--metrics-page-token={token}"
    with serving(folder, *flags, "--metrics-address=0", "--workers=1") as daemon:
        yield int(re.findall(r"port=(\d+)", daemon.logged("metrics_listening"))[0])


@pytest.fixture
def ask(port: int) -> Iterator[Ask]:
    """ask(path, method="GET", fields) -> the answer, whose connection ends with the test."""
    with contextlib.ExitStack() as stack:

        def do(path: str, method: str = "GET", fields: Any = KNOWN) -> http.client.HTTPResponse:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            stack.callback(connection.close)
            connection.request(method, path, headers=fields)
            return stack.enter_context(connection.getresponse())

        yield do


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_the_page_takes_no_request_that_changes_anything(ask: Ask, method: str) -> None:
    for path in PATHS:
        answer = ask(path, method)
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_only_who_knows_the_token_reads_the_page(ask: Ask) -> None:
    for path in PATHS:
        assert ask(path, fields={}).status == 401
        for wrong in (f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}0", f"Basic {BASIC[:-4]}", TOKEN):
            assert ask(path, fields={"Authorization": wrong}).status == 401
    for right in (f"Bearer {TOKEN}", f"Basic {BASIC}"):
        for path in PATHS:
            assert ask(path, fields={"Authorization": right}).status == 200
    assert [ask(path, fields={}).status for path in ("/livez", "/metrics")] == [200, 200]


def test_the_browser_is_told_to_load_nothing_from_elsewhere(ask: Ask) -> None:
    for path in PATHS:
        found = ask(path).headers
        assert found["Content-Security-Policy"].startswith("default-src 'self'; ")
        assert "frame-ancestors 'none'" in found["Content-Security-Policy"]
        assert "Access-Control-Allow-Origin" not in found
    assert set(re.findall(r'(?:src|href)="([^"]*)"', ask("/").read().decode())) <= {*PATHS}


def test_at_most_eight_pages_are_open(port: int, ask: Ask) -> None:
    with contextlib.ExitStack() as stack:
        until = time.monotonic() + PATIENCE_S
        opened = 0
        while opened < 8:  # those of other tests end when the daemon sees that they are closed
            assert time.monotonic() < until, f"{opened} pages are open"
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            connection.request("GET", "/events", headers=KNOWN)
            answer = stack.enter_context(connection.getresponse())
            stack.callback(connection.close)
            opened += answer.status == 200
        refused = ask("/events")
        assert (refused.status, refused.read()) == (503, b"8 pages are open, the limit\n")
        assert ask("/").status == 200
