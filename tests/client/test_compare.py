"""`stoker compare`: Stoker and another loader in turns, in one table."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from commands import call
from warm import Script

from stoker.client.compare import ComparedSide, Comparison, compare, comparing
from stoker.client.compare.compared_run import ComparedRun, Measured
from stoker.client.process_family import family, family_cpu_s
from stoker.client.row_summaries import row_count
from stoker.dataset import schema, write
from stoker.protocol.errors import UsageError
from stoker.server.commands import compare_command

HERE = Path(__file__).parent
MAIN = "import sys; from stoker.client.compare.compared_run import main; sys.exit(main())"
RUN = "stoker.client.compare.compared_run"


@pytest.fixture
def forked_runs(monkeypatch, forked_private_daemons):
    """Fork the processes of measurements, and the private daemons of Stoker's side."""

    def executed(arguments, timeout_s, errors):
        words = [word for word in arguments if word not in ("-m", RUN)]
        with Script("-c", MAIN, *words, stderr=errors, imports=[RUN], daemons=True) as process:
            return process.wait(timeout_s)

    monkeypatch.setattr(comparing, "executed", executed)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("compare") / "packed"
    write(path, [schema.label()], [{"label": number} for number in range(64)])
    return path


@pytest.fixture
def compared(dataset):
    """compared(loader, *flags) -> exit status, standard output and standard error."""

    def run(loader, *flags, pipeline="numbers"):
        return call(
            "compare", dataset, f"--pipeline=compared_loaders:{pipeline}",
            f"--against=compared_loaders:{loader}", f"--python-path={HERE}", "--workers=1",
            "--rounds=1", "--seconds=0.1", "--batch-size=8", *flags, NO_COLOR="1", COLUMNS="120",
        )  # fmt: skip

    return run


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_both_sides_are_measured(compared):
    code, printed, errors = compared("lists", "--json")
    assert (code, errors) == (0, "")
    found = json.loads(printed)
    assert list(found) == ["theirs", "stoker", "rounds", "notes"]
    for side in (found["theirs"], found["stoker"]):
        assert side["batch_rows"] == 8
        assert side["least_rows_per_s"] == side["rows_per_s"] == side["most_rows_per_s"] > 8
        assert side["memory_bytes"] > 1 << 20
        assert side["first_batch_s"] > 0
    assert not [note for note in found["notes"] if "takes no workers" in note or "differ" in note]


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
def test_what_makes_it_doubtful_is_below_the_table(compared):
    code, printed, errors = compared("larger_batches")
    assert code == 0, errors
    assert errors == (
        "round 1 of 1: compared_loaders:larger_batches ...\nround 1 of 1: Stoker ...\n"
    )
    assert "compared_loaders:larger_batches takes no workers=" in printed
    assert (
        "- batches differ: 16 rows of compared_loaders:larger_batches, 8 of Stoker; --batch-size is"
        " Stoker's" in printed
    )


@pytest.mark.slow
@pytest.mark.usefixtures("forked_runs")
@pytest.mark.parametrize(
    ("loader", "message"),
    [
        ("read_once", "UsageError: the second loop over the loader delivers no batches: make one"
            " that can be read again, such as a DataLoader instead of its iterator"),
        ("empty", "UsageError: the loader delivers no batches"),
        ("without_rows", "UsageError: a batch, float, has no rows to count: expected arrays,"
            " tensors or lists"),
        ("raises", "FileNotFoundError: no photos here ("),
        ("nowhere", "BuildError: 'compared_loaders:nowhere': 'compared_loaders' has no function"
            " 'nowhere'"),
    ],
)  # fmt: skip
def test_another_loader_that_fails_is_one_line(compared, loader, message):
    code, printed, errors = compared(loader, "--json")
    assert (code, printed) == (2, "")
    assert errors.startswith(f"stoker: compare: compared_loaders:{loader}: {message}")
    assert errors.count("\n") == 1


@pytest.mark.slow
def test_another_loader_that_hangs_is_ended(compared, monkeypatch):
    monkeypatch.setattr(comparing, "START_S", 3.0)
    code, _, errors = compared("hangs", "--json")
    assert code == 2
    assert errors == (
        "stoker: compare: compared_loaders:hangs did not end within 3 s; `stoker audit` says where"
        " it hangs\n"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pipeline": "train"}, "has no pipeline 'train'"),
        ({"flags": ["--seconds=0"]}, "Invalid value for '--seconds'"),
        ({"flags": ["--subset=label =="]}, "subset"),
        ({"flags": ["--rounds=0"]}, "Invalid value for '--rounds'"),
    ],
)
def test_a_mistake_ends_it_before_anything_is_measured(compared, monkeypatch, options, message):
    monkeypatch.setattr(comparing, "executed", None)
    flags = options.pop("flags", ())
    code, _, errors = compared("lists", *flags, **options)
    assert code in (1, 2)
    assert message in errors


class Canned:
    """Takes the place of a process: writes what it measured, in turn."""

    def __init__(self, theirs, ours):
        self.left = {True: iter(theirs), False: iter(ours)}
        self.order = []

    def __call__(self, arguments, timeout_s, errors):
        run = msgspec.json.decode(arguments[-1], type=ComparedRun)
        is_theirs = run.factory is not None
        self.order.append(is_theirs)
        Path(arguments[-2]).write_bytes(msgspec.json.encode(next(self.left[is_theirs])))
        return 0


def measured(rows, **more):
    return Measured(rows=rows, seconds=2.0, batch_rows=8, **more)


def test_sides_take_turns_and_have_medians(monkeypatch):
    theirs = [
        measured(200, cpu_s=1.0, first_batch_s=4.0, memory_bytes=300),
        measured(100, cpu_s=1.0, first_batch_s=2.0, memory_bytes=100, takes_workers=False),
        measured(220, cpu_s=1.1, first_batch_s=3.0, memory_bytes=200),
    ]
    ours = [measured(400, cpu_s=0.2, first_batch_s=1.0, memory_bytes=100, others=99.0)] * 3
    canned = Canned(theirs, ours)
    monkeypatch.setattr(comparing, "executed", canned)
    said = []
    found = compare(
        "data", "a:b", "c:d", workers=2, stream={"global_batch_size": 8}, progress=said.append
    )
    assert canned.order == [True, False, False, True, True, False]
    assert said[2] == "round 2 of 3: Stoker"
    assert found.theirs == ComparedSide(100.0, 5.0, 3.0, 200, 8, 50.0, 110.0)
    assert found.stoker == ComparedSide(200.0, 0.5, 1.0, 100, 8, 200.0, 200.0)
    assert found.notes == (
        "other processes kept 99.0 processors busy",
        "rates of c:d vary from 50 to 110 rows/s",
    )


def test_a_table_with_ratios(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    sides = (
        ComparedSide(100.0, 5.0, 3.0, 1 << 30, 8, 90.0, 110.0),
        ComparedSide(250.0, 0.5, 1.5, 1 << 28, 8, 1, 1),
    )
    compare_command._print(Comparison(*sides, 3, ("a note",)), "c:d")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "median of 3 rounds"
    assert [line.split() for line in lines[1:-1]] == [
        ["c:d", "Stoker", "Stoker", "/", "other"],
        ["images/s", "100", "250", "2.50"],
        ["CPU-s", "per", "1,000", "images", "5.00", "0.50", "0.10"],
        ["first", "batch,", "s", "3.00", "1.50", "0.50"],
        ["peak", "memory,", "MiB", "1,024", "256", "0.25"],
    ]
    assert lines[-1] == "- a note"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "compare: workers=0: expected an integer from 1"),
        ({"rounds": 1.5}, "compare: rounds=1.5: expected an integer from 1"),
        ({"seconds": float("nan")}, "compare: seconds=nan: expected a number up to 3600"),
    ],
)
def test_a_wrong_call(options, message):
    with pytest.raises(UsageError) as caught:
        compare("data", "a:b", "c:d", **({"workers": 1, "stream": {}} | options))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("batch", "rows"),
    [
        (np.zeros((5, 2)), 5),
        ((np.zeros((3, 2)), [1, 2, 3]), 3),
        ({"a": np.zeros((3, 2)), "b": {"c": np.zeros(3)}, "offsets": np.zeros(4)}, 3),
        ([["x", "y"], np.float32(2)], 2),
    ],
)
def test_rows_of_a_batch_are_what_most_outputs_have(batch, rows):
    assert row_count(batch) == rows


BURN = "import time\nwhile time.process_time() < 0.2: pass"
SHARED = """
import mmap, os
from stoker.client.process_family import family_memory_bytes
shared = mmap.mmap(-1, 64 << 20)
shared[:] = bytes(64 << 20)
alone = family_memory_bytes(os.getpid())
(reader, writer), (ours, theirs) = os.pipe(), os.pipe()
if not os.fork():
    sum(shared[at] for at in range(0, 64 << 20, 4096))
    os.write(theirs, b"1")
    os.close(writer)
    os.read(reader, 1)
    os._exit(0)
os.read(ours, 1)
both = family_memory_bytes(os.getpid())
os.close(writer)
os.wait()
print(alone >> 20, both >> 20)
"""


def test_memory_that_processes_share_counts_once(python):
    alone, both = map(int, python(SHARED).split())  # not forked: it shares pages with nobody
    assert alone >= 64
    assert both < alone + 32


def test_processes_that_ended_count_and_those_that_live_are_listed():
    before = family_cpu_s(os.getpid())
    subprocess.run([sys.executable, "-c", BURN], check=True)
    assert family_cpu_s(os.getpid()) - before > 0.15
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in family(os.getpid())
    assert child.pid not in family(os.getpid())
