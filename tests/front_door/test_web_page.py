"""The web page of a daemon that loads: what its events say, and what a browser shows of them."""

import contextlib
import http.client
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import axe_core_python
import chromium
import pytest
import skimage.data
from daemons import serving

from stoker.client import Loader
from stoker.dataset import open_dataset, schema, write

pytestmark = pytest.mark.slow
PATIENCE_S = 60
PIPELINES = Path(__file__).parent.parent / "client"
EVIL = "<script>alert(1)</script>"
CAT = skimage.data.chelsea()
BROKEN = 5
AXE = Path(axe_core_python.__file__).with_name("axe.min.js")
needs_browser = pytest.mark.skipif(
    chromium.EXECUTABLE is None, reason="no Chromium: apt-get install chromium"
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pieces of a photograph; the bytes of one are spoilt."""
    path = tmp_path_factory.mktemp("page") / "packed"
    rows = [{"image": CAT[9 * n : 9 * n + 100, :110].copy(), "label": n} for n in range(16)]
    write(path, [schema.image(), schema.label()], rows)
    with open_dataset(path) as opened:
        file, offset = opened.locate("image", BROKEN)
    with open(path / file.name, "r+b") as stored:
        stored.seek(offset)
        stored.write(bytes(64))
    return path


@pytest.fixture(scope="module")
def port(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a page; a training with a hostile name reads a dataset with a hostile name."""
    flags = (
        f"--dataset={EVIL}={dataset}", f"--python-path={PIPELINES}", "--workers=1",
        "--pipeline=train=client_pipelines:train", "--metrics-address=0",
    )  # fmt: skip
    with serving(tmp_path_factory.mktemp("daemon"), *flags) as daemon:
        line = daemon.logged("metrics_listening")
        assert "page=True" in line
        with Loader(
            daemon.address, dataset=EVIL, pipeline="train", batch_size=4, name=EVIL,
            on_error="replace", device="numpy", total_epochs=9,
        ) as loader:  # fmt: skip
            assert len(list(loader)) == 4
            port = int(re.findall(r"port=(\d+)", line)[0])
            assert f'<a href="http://127.0.0.1:{port}/"' in loader._repr_html_()
            yield port


def state_of(port: int, holds: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Return the first state of the daemon for which a condition holds, after its history."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        connection.request("GET", "/events")
        with connection.getresponse() as lines:
            until = time.monotonic() + PATIENCE_S
            while time.monotonic() < until:
                word, _, data = lines.readline().partition(b": ")
                if word == b"event":
                    lines.readline()
                if word == b"data" and holds(found := json.loads(data)):
                    return dict(found)
    raise AssertionError("no such state came")


def test_the_events_of_a_daemon_that_loads(port: int) -> None:
    found = state_of(port, lambda state: state["sessions"] and state["stages"])
    (session,) = found["sessions"]
    who = {"name": EVIL, "pid": os.getpid(), "dataset": EVIL, "pipeline": "train", "epochs": 9}
    assert {name: session[name] for name in who} == who
    assert (session["rows"], session["state"]) == (4, "open")
    assert session["announced"] >= 4
    (stages,) = found["stages"]
    assert (stages["dataset"], stages["pipeline"]) == (EVIL, "train")
    assert {"read", "decode", "op"} <= {one["stage"] for one in stages["stages"]}
    walls = [one["wall_ms"] for one in stages["stages"]]
    assert walls == sorted(walls, reverse=True)
    assert [one["id"] for one in found["bad_samples"]] == [BROKEN]
    assert found["bad_samples"][0]["reason"].startswith("its stored bytes no longer have the check")
    assert "bad_samples" in [one["event"] for one in found["warnings"]]
    assert [one["worker"] for one in found["workers"]] == [1]
    assert found["workers"][0]["state"] in ("idle", "read", "decode", "op", "write", "other")
    assert all(one["limit"] > 0 for one in found["limits"])


def broken_rules(browser: chromium.Chromium) -> list[str]:
    """Return what axe-core finds wrong with the page, for its users who hear or type it."""
    browser.evaluate(AXE.read_text() + "; 0")
    found = browser.evaluate(
        "axe.run().then((found) => ({rules: found.passes.length, broken: found.violations.map("
        "(one) => `${one.id}: ${one.help}: ${one.nodes.map((node) => node.html)}`)}))"
    )
    assert found["rules"] > 10, "it has looked"
    return list(found["broken"])


@needs_browser
def test_a_browser_shows_it_as_text_in_both_schemes_and_by_keyboard(port: int) -> None:
    with chromium.chromium() as browser:
        browser.look(1200)
        opened = state_of(port, lambda state: state["sessions"])["time"]
        browser.open(f"http://127.0.0.1:{port}/")
        browser.wait_for("document.querySelector('#verdicts .compute')")
        first = browser.evaluate("samples.get(1)[0][0]"), browser.evaluate("histories.get(1)[0][0]")
        assert max(first) < opened, "workers and rates of before"
        assert browser.evaluate("document.getElementById('status').textContent") == "ready"
        shown = browser.evaluate("document.querySelector('main').innerText")
        assert f"{EVIL} / train" in shown
        assert "op center_crop" in shown
        assert "worker 1" in shown
        timeline = browser.evaluate("document.querySelector('#workers canvas').ariaLabel")
        assert re.fullmatch(r"[a-z]+ \d+ %(, [a-z]+ \d+ %)*", timeline)
        assert "compute-bound" in shown, "nobody takes the batches that are ready"
        assert browser.evaluate("document.querySelectorAll('main script').length") == 0
        assert "its stored bytes no longer have the check" in shown
        backs = []
        for dark in (False, True):
            browser.look(1200, dark=dark)
            backs.append(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
            assert broken_rules(browser) == []
        assert backs[0] != backs[1]
        browser.press("Tab", 9)
        assert browser.evaluate("document.activeElement.id") == "pause"
        browser.press("Enter", 13)
        assert browser.evaluate("document.activeElement.ariaPressed") == "true"
        browser.press("Tab", 9)
        assert browser.evaluate("document.activeElement.className") == "scroll"
        assert browser.complaints == [], "neither an error nor anything that the policy blocked"
