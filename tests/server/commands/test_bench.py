"""`stoker bench`: what it says follows from what it measured."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import subprocess
import sys
import time
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest
import skimage.data
from PIL import Image
from traps import set_traps
from user_folders import importing_from

from stoker.client import measure
from stoker.dataset import open_dataset, schema
from stoker.dataset.packing.build import write_dataset
from stoker.protocol.errors import StokerError
from stoker.server.commands.bench_command import _print_verdict, bench
from stoker.server.inspect.bench import rates as rates_module
from stoker.server.inspect.bench.caveats import caveats
from stoker.server.inspect.bench.host_load import busy_cpu_s, waited_cpu_s
from stoker.server.inspect.bench.rate_plot import plot
from stoker.server.inspect.bench.rates import Rate
from stoker.server.inspect.bench.row_stages import STAGES, Stages
from stoker.server.inspect.bench.torch_rows import TorchRows
from stoker.server.inspect.bench.verdict import deliver_s, estimate, judge
from stoker.server.rows.subject import load_pipeline

pytestmark = pytest.mark.usefixtures("forked_private_daemons")

STOKER = str(Path(sys.executable).with_name("stoker"))
BRIEFLY = ("--seconds=0.1", "--batch-size=8")
PIPELINE = """
from stoker import ops
from stoker.pipeline import pipeline

@pipeline
def crops(sample):
    return {"image": ops.random_resized_crop(sample.image, size=16), "label": sample.label}

@pipeline
def fitted(sample):
    return {"image": ops.fit_bucket(sample.image), "label": sample.label}

@pipeline
def numbers(sample):
    return {"label": sample.label}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a module of pipelines and datasets of photographs, two of them damaged."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "bench_pipelines.py").write_text(PIPELINE)
    rows = []
    for number in range(24):
        out = io.BytesIO()
        pixels = skimage.data.astronaut()[5 * number : 5 * number + 90, 100:240]
        Image.fromarray(pixels).save(out, "JPEG", quality=90)
        rows.append({"image": out.getvalue(), "label": number})
    for name in ("data", "damaged", "without_grid"):
        image = schema.image(grid=name != "without_grid")
        write_dataset(folder / name, schema.Schema((image, schema.label())), rows)
    for name in ("damaged", "without_grid"):
        with open_dataset(folder / name) as dataset:
            (file, offset), size = dataset.locate("image", 5), len(dataset.read("image", 5))
        with open(folder / name / file.name, "r+b") as stored:
            stored.seek(offset + 700)
            stored.write(bytes(size - 700))
    (folder / "bad.txt").write_text("5\n")
    return folder


@pytest.fixture(scope="module")
def executed(place):
    """A whole run over samples that a list leaves: its folder, exit code, output and errors.

    The folder has modules with the names of those that the processes import.
    """
    if importlib.util.find_spec("torch") is None:
        pytest.skip("no torch to compare with")
    folder = place / "trapped"
    folder.mkdir()
    set_traps(folder, folder / "ran")
    (folder / "bench_pipelines.py").write_text(PIPELINE)
    command = [STOKER, "bench", "bench_pipelines:crops", "../damaged", "--exclude=../bad.txt"]
    done = subprocess.run(
        [*command, *BRIEFLY, "--workers=1", "--json", "--plot=rates.png"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    return folder, done.returncode, done.stdout, done.stderr


class Measured:
    """Takes the place of `subprocess` where a rate is measured: in this process, with a daemon."""

    TimeoutExpired = subprocess.TimeoutExpired

    @staticmethod
    def run(command, **_options):
        """Run `stoker.client.measure`, as `subprocess.run` does."""
        assert command[:4] == [sys.executable, "-P", "-m", measure.__name__]
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as out:
            patch.setattr(sys, "argv", command[3:])
            patch.setattr(sys, "path", [*sys.path])
            patch.setattr(measure, "WARM_S", 0.05)
            code = measure.main()
        return subprocess.CompletedProcess(command, code, out.getvalue(), "")


@pytest.fixture
def benched(place, run, monkeypatch):
    """benched(*flags) -> what `stoker bench` printed, run in this process, without torch."""
    monkeypatch.setattr(rates_module, "subprocess", Measured)
    monkeypatch.chdir(place)

    def bench_with(*flags, pipeline="crops", data="data"):
        usual = (*BRIEFLY, "--workers=1", "--no-torch")
        return run(bench, f"bench_pipelines:{pipeline}", data, *usual, *flags)

    return bench_with


@pytest.mark.slow
def test_stages_rates_and_a_plot(executed):
    folder, code, out, err = executed
    assert code == 0, err
    found = json.loads(out)
    seconds = found["stages"]["seconds"]
    assert list(seconds) == list(STAGES)
    assert all(seconds[stage] > 0 for stage in STAGES)
    assert found["stages"]["decoded_in_part"] == ["image"]
    assert found["stages"]["rows"] >= 8
    (rate,), (other,) = found["stoker"], found["torch"]
    for one in (rate, other):
        assert one["workers"] == 1
        assert one["rows_per_s"] > 0
        assert 0 <= one["waited"] <= 1
        assert one["first_batch_s"] > 0
        assert one["others"] >= 0
    assert rate["client_s"] > 0
    assert rate["daemon_s"] >= 0
    assert 0 <= found["stages"]["waited"] <= 1
    assert found["stages"]["others"] >= 0
    assert (found["verdict"] is None) == bool(found["caveats"]), "the host may be busy"
    if found["verdict"] is not None:
        estimated = found["verdict"]["estimated"]
        assert 1 <= estimated <= max(1, len(os.sched_getaffinity(0)))
        assert found["verdict"]["saturating"] == (1 if estimated == 1 else None)
        assert found["verdict"]["bottleneck"] in (*STAGES, "deliver")
    with Image.open(folder / "rates.png") as picture:
        assert picture.size == (640, 400)


@pytest.mark.slow
def test_modules_of_the_working_folder_do_not_run(executed):
    folder, code, _, err = executed
    assert code == 0, err
    assert not (folder / "ran").exists()


@pytest.mark.slow
def test_what_people_read(benched):
    out = benched("--target=1000000")
    assert "rows/s by one worker's code, row by row; decoded in part: image" in out
    assert ("bottleneck: " in out) != ("No verdict: " in out)
    assert ("Workers that would reach the target: " in out) != ("No verdict: " in out)


@pytest.mark.slow
def test_buckets_are_measured_too(benched):
    wanted = '--buckets={"max_area": 2304, "divisor": 16}'
    found = json.loads(benched(wanted, "--torch", "--json", pipeline="fitted"))
    assert found["stages"]["seconds"]["ops"] > 0
    assert found["stoker"][0]["rows_per_s"] > 0
    assert not found["torch"]


@pytest.mark.slow
def test_whole_chunks_are_measured(benched):
    found = json.loads(benched("--json", pipeline="numbers"))
    assert found["stages"]["in_chunks"]
    assert found["stages"]["rows_per_s"] > 0
    assert found["stages"]["seconds"]["ops"] > 0
    assert found["stoker"][0]["rows_per_s"] > 0


@pytest.mark.slow
def test_samples_of_a_list_are_left_out(executed, benched):
    """A damaged sample stops all that reads it: so nothing did."""
    for data in ("damaged", "without_grid"):
        with pytest.raises(StokerError, match=r"id 5|sample 5"):
            benched("--json", data=data)
    _, code, out, err = executed
    assert code == 0, err
    found = json.loads(out)
    assert found["stoker"][0]["rows_per_s"] > 0
    assert found["torch"][0]["rows_per_s"] > 0
    wanted = '--buckets={"max_area": 2304, "divisor": 16}'
    benched("--exclude=bad.txt", wanted, pipeline="fitted", data="damaged")


def test_rows_for_torch_are_those_that_are_left(place):
    with importing_from(place):
        graph = load_pipeline("bench_pipelines:numbers")
    whole = TorchRows(str(place / "data"), graph)
    left = TorchRows(str(place / "data"), graph, str(place / "bad.txt"))
    assert [int(whole[n]["label"]) for n in range(len(whole))] == [*range(24)]
    assert [int(left[n]["label"]) for n in range(len(left))] == [*range(5), *range(6, 24)]


def stages(**seconds):
    given = {**dict.fromkeys(STAGES, 1e-5), **seconds}
    return Stages(given, 100, 1000.0, in_chunks=False)


def rates(*pairs, client_s=1e-6, daemon_s=1e-6):
    return [
        Rate(workers, rows_per_s, 1.0, client_s, daemon_s, 0.5) for workers, rows_per_s in pairs
    ]


GOOD = {"read": 1e-4, "splice": 0.0, "decode": 6e-4, "ops": 2.5e-4, "write": 5e-5}
"""Stages of a row that takes a millisecond."""


def test_measurements_that_agree_raise_no_doubt():
    assert caveats(stages(**GOOD), rates((1, 950), (2, 1800), (4, 1750)), 2) == []
    assert caveats(replace(stages(**GOOD), waited=0.05, others=0.1), rates((1, 950)), 2) == []
    apart = replace(stages(**GOOD), others=14.0)
    assert caveats(apart, rates((1, 950)), cores=2, host_cores=16) == [], (
        "they use other processors"
    )


@pytest.mark.parametrize(
    ("found", "measured", "reason"),
    [
        (
            {"others": 0.8}, ((1, 950),),
            "Other processes kept 0.8 of the 2 processors of this host busy.",
        ),
        (
            {"waited": 0.35}, ((1, 950),),
            "The stages were measured by a process that waited for a processor for 35% of the"
            " time.",
        ),
        (
            {"rows_per_s": 500.0}, ((1, 480),),
            "The stages of a row take 1,000 us, but a row takes one worker's code 2,000 us.",
        ),
        (
            {"rows_per_s": 1700.0}, ((1, 1650),),
            "The stages of a row take 1,000 us, but a row takes one worker's code 588 us.",
        ),
        (
            {}, ((1, 1400), (2, 1900)),
            "1 worker delivered 1,400 rows/s, more than the 1,000 that the code alone computes.",
        ),
        (
            {}, ((1, 950), (2, 700)),
            "2 workers delivered 700 rows/s, fewer than 1 (950).",
        ),
    ],
)  # fmt: skip
def test_a_contradiction_is_named_instead_of_a_verdict(found, measured, reason):
    assert caveats(replace(stages(**GOOD), **found), rates(*measured), 2) == [reason]


def test_cheap_rows_have_costs_that_no_stage_has():
    cheap = replace(stages(**dict.fromkeys(GOOD, 1e-6)), rows_per_s=50_000.0)
    assert caveats(cheap, rates((1, 30_000)), 2) == []


def test_what_others_use_is_measured_while_a_rate_is():
    """This process is busy, and to the benchmark it is another one."""
    busy = [busy_cpu_s(), time.process_time()]
    while time.process_time() - busy[1] < 0.3:
        pass
    assert busy_cpu_s() - busy[0] >= 0.25
    assert waited_cpu_s() >= 0


def test_no_verdict_is_printed_with_its_reasons(capsys):
    _print_verdict(None, ["The host was busy."])
    assert capsys.readouterr().out.splitlines()[:2] == [
        "No verdict: the measurements do not support one.",
        "- The host was busy.",
    ]


def test_the_bottleneck_is_the_longest_stage():
    verdict = judge(stages(decode=1e-3), rates((1, 990), (2, 1900)), target=None, cores=2)
    assert verdict.bottleneck == "decode"
    assert verdict.share == pytest.approx(1e-3 / (1e-3 + 4e-5 + 1 / 990 - 1 / 1000), rel=1e-9)
    assert verdict.for_target is None


def test_delivery_can_be_the_bottleneck():
    assert deliver_s(stages(), rates((1, 500))) == pytest.approx(1e-3)
    assert judge(stages(), rates((1, 500)), None, 2).bottleneck == "deliver"
    assert deliver_s(stages(), rates((1, 1100))) == 0
    assert deliver_s(stages(), rates((2, 1100))) == 0


def test_how_many_workers_saturate_and_reach_a_target():
    verdict = judge(
        stages(), rates((1, 1000), (2, 1900), (4, 1950), (8, 1990)), target=4500, cores=2
    )
    assert verdict.saturating == 2
    assert verdict.for_target == 5


def test_one_count_alone_does_not_say_what_saturates():
    """A worker of 1,000 rows a second on 16 cores: more of them would do more, so try them."""
    verdict = judge(stages(), rates((1, 990)), target=None, cores=16)
    assert (verdict.saturating, verdict.estimated) == (None, 16)
    assert judge(stages(), rates((1, 990)), target=None, cores=1).saturating == 1
    verdict = judge(stages(), rates((8, 7900), (16, 15800)), target=None, cores=16)
    assert (verdict.saturating, verdict.estimated) == (16, 16)
    verdict = judge(stages(), rates((1, 990), (4, 3900)), target=None, cores=16)
    assert (verdict.saturating, verdict.estimated) == (None, 16)


def test_client_and_daemon_need_cores_and_are_one_thread_each():
    half = rates((1, 900), client_s=1e-3, daemon_s=0.0)  # the client eats what a worker makes
    assert estimate(stages(), half, cores=16) == 1
    assert estimate(stages(), rates((1, 900), daemon_s=2e-4), cores=16) == 5
    assert estimate(stages(), rates((1, 900), client_s=5e-4, daemon_s=5e-4), cores=3) == 2
    assert estimate(stages(), rates((1, 900), client_s=5e-4, daemon_s=5e-4), cores=2) == 1
    assert estimate(stages(), rates((1, 900), (2, 1700), client_s=1e-5), cores=4) == 4


def test_a_plot_shows_both():
    (axes,) = plot(rates((1, 900), (2, 1700)), rates((1, 300), (2, 400)), 1000).axes
    assert {line.get_label(): line.get_xydata().tolist() for line in axes.lines} == {
        "Stoker": [[1, 900], [2, 1700]],
        "DataLoader": [[1, 300], [2, 400]],
        "one worker's code, times n": [[0, 0], [2, 2000]],
    }
    (axes,) = plot(rates((1, 900)), [], 1000).axes
    assert "DataLoader" not in [line.get_label() for line in axes.lines]


def test_matplotlib_is_imported_for_plots_alone():
    script = """
import sys
import stoker.server.commands.bench_command, stoker.server.commands.buckets_command
from stoker.server.inspect.figures import check_plot, make_figure

check_plot(None)
assert "matplotlib" not in sys.modules
make_figure(1, 1)
assert "matplotlib.figure" in sys.modules
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
