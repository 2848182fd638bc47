"""Where the time of rows goes: what a daemon says of read, decode and each op.

A fixed part of what an op of these pipelines takes is known: it waits, or computes, for 10 ms.
"""

import contextlib
import importlib
import io
import itertools
import logging
import os
import re
import select
import signal
import urllib.request
from pathlib import Path

import counting
import pytest
import skimage.data
from daemons import children, serving
from loading import digest
from PIL import Image
from prometheus_client.parser import text_string_to_metric_families
from proxy import Proxy

from stoker.client import Loader
from stoker.dataset.format.fields import Schema
from stoker.dataset.format.schema import image, label
from stoker.dataset.packing.build import write_dataset
from stoker.protocol.remote.tcp import tcp_address

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
ROWS = 24
BATCH = 6
PART_S = 0.01
EXACT = 0.99
"""Of a known time, at least this part is found: readings of the clocks are taken off."""


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """A packed dataset of JPEGs of 480x480."""
    photo = skimage.data.astronaut()

    def rows():
        for number in range(ROWS):
            file = io.BytesIO()
            Image.fromarray(photo[number : number + 480, number : number + 480]).save(file, "JPEG")
            yield {"image": file.getvalue(), "label": number}

    dest = tmp_path_factory.mktemp("photographs") / "data"
    write_dataset(dest, Schema((image(), label())), rows())
    return dest


@pytest.fixture
def serve(photographs, small_dataset, tmp_path):
    """Start a daemon with one worker, with these flags; it ends with the test."""
    with contextlib.ExitStack() as started:

        def begin(*more):
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            folder.mkdir()
            named = ("crops", "sleepy", "busy", "choices")
            return started.enter_context(
                serving(
                    folder, f"--dataset=photographs={photographs}", "--memory-limit=64MiB",
                    f"--dataset=small={small_dataset}", "--workers=1", f"--python-path={HERE}",
                    *[f"--pipeline={name}=stage_pipelines:{name}" for name in named], *more,
                )
            )  # fmt: skip

        yield begin


def loader(daemon, pipeline, dataset="photographs", **more):
    given = {"dataset": dataset, "pipeline": pipeline, "batch_size": BATCH, "device": "numpy"}
    return Loader(daemon.address, **given, **more)


def digests(daemon, pipeline, dataset="photographs", epochs=2):
    with loader(daemon, pipeline, dataset) as batches:
        return [digest(batch) for _ in range(epochs) for batch in batches]


def stages(daemon):
    """(dataset, pipeline) -> timed rows, and stage or op -> seconds and CPU seconds a row."""
    found = {}
    for one in counting.status(daemon.address).stages:
        seconds = {
            (stage.op or stage.stage): (stage.wall_s / one.rows, stage.cpu_s / one.rows)
            for stage in one.stages
        }
        assert len(seconds) == len(one.stages)
        found[one.dataset, one.pipeline] = one.rows, seconds
    assert len(found) == len(counting.status(daemon.address).stages)
    return found


def line_of(text, function):
    """Where a function of the pipelines' file has a text."""
    lines = (HERE / "stage_pipelines.py").read_text().splitlines()
    first = lines.index(f"def {function}:")
    number = next(number for number in range(first, len(lines)) if text in lines[number])
    return f"(stage_pipelines.py:{number + 1})"


def test_an_op_that_waits_takes_time_and_one_that_computes_takes_the_processor_too(serve):
    daemon = serve()
    digests(daemon, "sleepy")
    digests(daemon, "busy")
    found = stages(daemon)
    (rows, waits), (_, computes) = (found["photographs", name] for name in ("sleepy", "busy"))
    assert 0 < rows < 3 * ROWS
    wall_s, cpu_s = waits["naps " + line_of("ops.python", "sleepy(sample)")]
    assert wall_s >= PART_S * EXACT
    assert cpu_s < PART_S / 2
    wall_s, cpu_s = computes["burns " + line_of("ops.python", "busy(sample)")]
    assert cpu_s >= PART_S * EXACT
    assert wall_s >= PART_S * EXACT
    counters = counting.counters(daemon.address)
    both = [rows * wall_s for rows, of in found.values() for wall_s, _ in of.values()]
    assert sum(both) <= counters["worker_seconds_total"]
    assert counters["worker_cpu_seconds_total"] >= PART_S * 2 * ROWS
    assert counters["worker_seconds_total"] >= counters["worker_cpu_seconds_total"] + PART_S * ROWS
    assert counters["worker_queued_seconds_total"] >= 0


def test_every_stage_is_named_also_of_rows_that_are_computed_many_at_a_time(serve):
    daemon = serve()
    digests(daemon, "crops", "photographs", 10)
    digests(daemon, "crops", "small", 100)
    found, ops = stages(daemon), {
        f"{name} {line_of(name, 'crops(sample)')}"
        for name in ("random_resized_crop", "horizontal_flip", "gaussian_blur", "normalize")
    }  # fmt: skip
    (_, decoded), (_, stored) = (found[name, "crops"] for name in ("photographs", "small"))
    assert decoded.keys() == {"read", "decode", "write", "other", *ops}
    assert stored.keys() - {"other"} == {"write", *ops}
    for wall_s, cpu_s in [decoded["read"], decoded["decode"], *map(stored.get, ops)]:
        assert wall_s > 0
        assert cpu_s >= 0
    assert decoded["decode"][0] > decoded["read"][0]


def test_batches_are_the_same_without_the_times(serve, monkeypatch):
    daemon = serve()
    streams = list(itertools.product(("crops", "choices", "sleepy"), ("photographs", "small")))
    delivered = [digests(daemon, *stream) for stream in streams]
    assert stages(daemon).keys() == {(dataset, pipeline) for pipeline, dataset in streams}
    assert daemon.stop() == 0
    monkeypatch.setenv("STOKER_METRICS_STAGE_TIMES", "false")
    silent = serve()
    assert [digests(silent, *stream) for stream in streams] == delivered
    assert stages(silent) == {}


def test_sums_never_decrease_when_workers_die(serve):
    daemon = serve()
    epoch = digests(daemon, "sleepy")
    before = counting.status(daemon.address)
    (template,) = children(daemon.pid)
    (worker,) = children(template)
    os.kill(worker, signal.SIGKILL)
    assert digests(daemon, "sleepy") == epoch
    after = counting.status(daemon.address)
    assert after.counters["worker_deaths_total"] == 1
    (one,), (other,) = before.stages, after.stages
    assert other.rows > one.rows
    seconds = {(s.stage, s.op): s.wall_s for s in other.stages}
    for stage in one.stages:
        assert seconds[stage.stage, stage.op] >= stage.wall_s
    assert after.counters["worker_seconds_total"] > before.counters["worker_seconds_total"]


def test_pipelines_that_clients_send_share_one_label(serve, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    pipelines = importlib.import_module("stage_pipelines")
    daemon = serve()
    for size in (8, 16, 32):
        digests(daemon, pipelines.resized(size), epochs=1)
    found = stages(daemon)
    assert found.keys() == {("photographs", "private")}
    ((_, seconds),) = found.values()
    assert seconds.keys() >= {"decode", "resize " + line_of("ops.resize", "resized(size)")}


def test_prometheus_gets_them_with_labels(serve):
    daemon = serve("--metrics-address=0")
    digests(daemon, "sleepy")
    rows, seconds = [], {}

    def published():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            text = answer.read().decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == "stoker_timed_rows_total":
                    rows.append(sample.value)
                    assert sample.labels == {"dataset": "photographs", "pipeline": "sleepy"}
                if sample.name == "stoker_stage_seconds_total":
                    labels = sample.labels
                    key = labels["stage"], labels["op"].partition(" ")[0], labels["clock"]
                    seconds[key] = sample.value
        return rows and rows[-1] >= ROWS / 2

    port = int(re.search(r"metrics_listening.*port=(\d+)", daemon.log.read_text())[1])
    counting.wait_for(published)
    assert seconds["op", "naps", "wall"] >= PART_S * EXACT * rows[-1]
    assert seconds["op", "naps", "cpu"] < PART_S * rows[-1] / 2
    assert seconds["decode", "", "wall"] > 0


def test_the_verdict_names_the_op_that_a_loop_waits_for(serve, caplog):
    caplog.set_level(logging.INFO, "stoker.client")
    daemon = serve()
    with loader(daemon, "sleepy", views=4) as batches:
        assert str(batches.verdict()) == "no verdict yet: it takes two batches of an epoch"
        for _ in batches:
            pass
        found = batches.verdict()
    naps = f"op naps {line_of('ops.python', 'sleepy(sample)')}"
    assert (found.bound, found.batches) == ("data", ROWS // BATCH - 1)
    assert found.waited > 0.5
    assert re.match(r"Workers are \d+ % busy at \d+ % CPU: they wait .*in ", found.where)
    assert naps in found.where
    (line,) = [text for text in caplog.messages if "-bound: " in text]
    assert line.startswith("data-bound: ")
    assert naps in line


def test_the_verdict_on_a_slow_source_names_reading(serve):
    daemon = serve("--dataset=slow=stage_pipelines:Slow", "--pipeline=plain=stage_pipelines:plain")
    with loader(daemon, "plain", "slow") as batches:
        for _ in batches:
            pass
        found = batches.verdict()
    assert (found.bound, found.waited > 0.5) == ("data", True)
    assert re.match(r"Workers are \d+ % busy at \d+ % CPU: they wait .*in read, \d", found.where)


LINK_S = 0.2
"""For each batch, which takes a worker some microseconds."""


def test_the_verdict_on_a_slow_link_is_that_it_waits_for_the_network(serve):
    listens = ("--tcp=tcp://127.0.0.1:0", "--insecure")
    daemon = serve(*listens, "--pipeline=plain=stage_pipelines:plain")
    given = {"dataset": "small", "pipeline": "plain", "batch_size": 2, "device": "numpy"}
    with (
        Proxy(tcp_address(daemon.ready["tcp"]), keeps=False, delay_s=LINK_S) as link,
        Loader(link.address, **given) as batches,
    ):
        for _ in batches:
            pass
        found = batches.verdict()
    assert (found.bound, found.waited > 0.5) == ("data", True)
    assert re.fullmatch(r"Workers are \d+ % busy: it waits for the network", found.where)
    assert found.advice == "Use a daemon on this host, or send less"


STEP_S = 1.0
"""Of a step that also waits until the next batch is there, however slow the machine is."""


def sessions(daemon):
    return counting.status(daemon.address).sessions


def test_the_verdict_on_a_slow_step_is_that_no_loader_is_worth_it(serve):
    daemon = serve()
    with loader(daemon, "crops") as batches:
        for _ in batches:
            select.select([], [], [], STEP_S)
            counting.wait_for(lambda: any(one.untaken for one in sessions(daemon)))
        found = batches.verdict()
    assert (found.bound, found.where) == ("compute", "")
    assert found.waited < 0.05
    assert str(found).endswith("only a faster step makes the loop faster")
