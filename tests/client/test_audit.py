"""`stoker audit`: known answers for loaders with one flaw each, for torch, Grain and Stoker."""

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from audit_runs import fork_runs
from commands import call
from daemons import serving

from stoker.client.audit import audit, run_processes
from stoker.dataset import schema, write
from stoker.protocol.errors import UsageError

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent


@pytest.fixture
def forked_runs(monkeypatch):
    """Fork the processes of runs from one that has imported the client and torch."""
    fork_runs(monkeypatch)


def answers(loader, *flags, module="audited_loaders"):
    """Audit a loader; return its exit status, and (answer, is_finding, evidence) by question."""
    code, printed, errors = call(
        "audit", f"{module}:{loader}", "--python-path", HERE, "--json", *flags
    )
    assert "Traceback" not in errors, errors
    told = json.loads(printed)
    found = {
        one["question"]: (one["answer"], one["is_finding"], one["evidence"])
        for one in told["questions"]
    }
    assert told["findings"] == sum(is_finding for _, is_finding, _ in found.values())
    assert code == int(told["findings"] > 0)
    return found


@pytest.mark.usefixtures("forked_runs")
def test_a_loader_that_keeps_every_promise():
    found = answers("good", "--batches", "6")
    assert {name: answer for name, (answer, _, _) in found.items()} == {
        "repeat": "same", "workers": "same", "rows": "differs", "draws": "differs",
        "seeds": "differs", "epochs": "differs", "ranks": "differs", "resume": "same",
    }  # fmt: skip
    assert not any(is_finding for _, is_finding, _ in found.values())
    assert found["workers"][2] == (
        "6 batches (the first of an epoch), 24 rows: no worker, 1 worker, 2 workers"
    )
    assert found["ranks"][2] == "0 of 12 rows in common; by ids"
    assert answers("takes_anything", "--question=draws")["draws"] == found["draws"]


LITTLE = {"workers", "rows", "draws", "seeds", "ranks"}


@pytest.mark.usefixtures("forked_runs")
def test_what_a_factory_does_not_take_is_not_asked_by_name():
    found = answers("takes_little")
    assert {name for name, (answer, _, _) in found.items() if answer == "not asked"} == LITTLE
    assert found["ranks"][2] == "audited_loaders:takes_little takes no rank= and world_size="
    assert found["resume"][0] == "same"
    assert found["epochs"][0] == "differs"  # two loops over one loader


@pytest.mark.usefixtures("forked_runs")
def test_a_factory_whose_arguments_have_other_names_is_told():
    found = answers("takes_other_names", "--question=workers", "--question=seeds")
    assert found["workers"][2] == (
        "audited_loaders:takes_other_names takes no workers=; its other arguments are num_workers=,"
        " shuffle="
    )
    assert found["seeds"][0] == "differs"


FLAWS = [
    ("unseeded", "repeat", "differs", "another against one run: batch 0, row "),
    ("one_seed", "seeds", "constant", "seed 1 is seed 0, all 6 batches (the whole epoch), 24 rows"),
    ("one_order", "epochs", "constant",
        "ids come in the same order in epoch 0 and epoch 1: 0, 1, 2, 3, ...; only values differ"),
    ("validation", "epochs", "constant", "epoch 1 is epoch 0, all 6 batches"),
    ("all_in_each_worker", "workers", "differs",
        "2 workers against no worker: 12 batches instead of 6"),
    ("all_in_each_worker", "rows", "duplicates",
        "24 of 48 rows come again with 2 workers, 0 with none: id"),
    ("one_generator", "workers", "differs",
        "2 workers against no worker: batch 1, row 0: output 'deep.0.draw' differs (id"),
    ("one_generator", "draws", "duplicates",
        "50 % of the draws of 2 workers come again, 0 % without workers: batch 1 row 0 draws what"
        " batch 0 row 0 drew"),
    ("seeded_again", "draws", "constant",
        "epoch 1 draws what epoch 0 drew, all 24 rows, with 2 workers"),
    ("blind_to_ranks", "ranks", "duplicates", "rank 1 is rank 0, all 6 batches"),
    ("overlapping_ranks", "ranks", "duplicates",
        "6 of 12 rows of rank 1 are also of rank 0: id 6, batch 0 row 0 of rank 1 is batch 1 row 2"
        " of rank 0"),
    ("forgets_a_batch", "resume", "differs",
        "the resumed loop against what followed batch 2: batch 0, row 0: output 'index' differs"),
    ("read_once", "epochs", "failed", "the second loop over the loader delivers no batches"),
]  # fmt: skip


@pytest.mark.usefixtures("forked_runs")
@pytest.mark.parametrize(("loader", "question", "answer", "evidence"), FLAWS)
def test_each_flaw_is_found_with_evidence(loader, question, answer, evidence):
    found = answers(loader, "--question", question)
    assert list(found) == [question]
    assert found[question][:2] == (answer, True)
    assert evidence in found[question][2]


@pytest.mark.usefixtures("forked_runs")
def test_what_is_no_flaw():
    assert answers("not_random", "--question=draws")["draws"] == (
        "constant", False, "nothing is random: all rows of a sample are equal"
    )  # fmt: skip
    found = answers("validation", "--evaluation", "--question=seeds", "--question=epochs")
    assert [one[:2] for one in found.values()] == [("same", False)] * 2
    assert answers("one_order", "--evaluation", "--question=epochs")["epochs"][:2] == (
        "differs", True
    )  # fmt: skip
    assert answers("state_of_iterator", "--question=resume")["resume"][0] == "same"
    missing = answers("without_state", "--question=resume")["resume"]
    assert missing[:2] == ("not asked", False)
    assert "the loader has no state_dict()" in missing[2]
    assert answers("one_batch", "--question=resume")["resume"][2] == "an epoch has one batch"


@pytest.mark.usefixtures("forked_runs")
def test_a_loader_without_a_seed_makes_other_answers_doubtful():
    found = answers("unseeded", "--question=repeat", "--question=seeds")
    assert found["repeat"][1]
    assert found["seeds"][2].endswith("; so do two equal runs")


@pytest.mark.usefixtures("forked_runs")
def test_ids_may_be_named():
    found = answers("good", "--ids", "deep.1", "--question=ranks")
    assert found["ranks"][2] == "0 of 12 rows in common; by ids"
    missing = answers("good", "--ids", "deep", "--question=ranks")["ranks"]
    assert missing == (
        "failed", True,
        "the first run: UsageError: ids='deep': a batch has no such output; it has 'index',"
        " 'deep.0.draw', 'deep.1'",
    )  # fmt: skip


FAILURES = [
    ("empty", "the first run: the loader delivers no batches"),
    ("needs_a_path", "its argument 'path' has no default: expected some of workers, seed, epoch,"),
    ("returns_a_number", "audited_loaders:returns_a_number returned int: expected an iterable of"),
    ("odd_batches", "output 'meta': a object cannot be compared; expected arrays, tensors,"),
    ("NOT_CALLABLE", "'audited_loaders' has no function 'NOT_CALLABLE'"),
    ("nowhere", "'audited_loaders' has no function 'nowhere'"),
    ("", "'audited_loaders:': expected module:function, such as my_data:make_loader"),
]


@pytest.mark.usefixtures("forked_runs")
@pytest.mark.parametrize(("loader", "evidence"), FAILURES)
def test_a_first_run_that_fails_is_the_only_finding(loader, evidence):
    found = answers(loader)
    assert evidence in found.pop("repeat")[2]
    assert set(found.values()) == {("not asked", False, "the first run failed")}


@pytest.mark.usefixtures("forked_runs")
def test_a_run_that_raises_names_the_line():
    failed = answers("raises_later", "--question=workers")["workers"]
    assert failed[:2] == ("failed", True)
    assert failed[2].startswith("workers=1: KeyError: 'no such file' (")
    assert "audited_loaders.py:" in failed[2]


@pytest.mark.parametrize(
    ("loader", "timeout_s", "parts"),
    [
        ("hangs", 10, ("it did not end within 10 s, after 1 batch, in ", "loaders.py:", " hangs")),
        ("crashes", 300, ("SIGSEGV ended its process after 1 batch",)),
        ("exits", 300, ("its process ended with status 3 after 0 batches: the disk is on fire",)),
        ("ends", 300, ("its process ended with status 3 after 0 batches: no word",)),
        ("missing.module", 300, ("importing 'missing' failed with ModuleNotFoundError",)),
    ],
)  # fmt: skip
def test_a_loader_that_hangs_or_crashes_ends_with_all_that_it_started(
    loader, timeout_s, parts, tmp_path, monkeypatch
):
    monkeypatch.setenv("AUDITED_CHILD", str(tmp_path / "child"))
    name = loader if "." in loader else f"audited_loaders:{loader}"
    name = name.replace(".", ":")
    report = audit(name, timeout_s=timeout_s, python_path=[str(HERE)])
    (finding,) = report.findings
    assert finding.answer == "failed"
    for part in parts:
        assert part in finding.evidence
    if loader == "hangs":
        pid = int((tmp_path / "child").read_text())
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            child = os.pidfd_open(pid)
            ended, _, _ = select.select([child], [], [], 20)
            os.close(child)
            assert ended


def test_a_process_that_does_not_end_itself_is_killed():
    with open(os.devnull, "wb") as errors:
        code = "import signal; signal.pause()"
        assert run_processes.executed(["-c", code], 0.5, errors.fileno()) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batches": 0}, "audit: batches=0: expected an integer from 1"),
        ({"timeout_s": 0}, "audit: timeout_s=0: expected seconds, up to 86400"),
        ({"timeout_s": float("nan")}, "audit: timeout_s=nan: expected seconds, up to 86400"),
        ({"questions": ["epoch"]}, "audit: question 'epoch': expected one of repeat, workers, rows,"
            " draws, seeds, epochs, ranks, resume"),
    ],
)  # fmt: skip
def test_a_wrong_call(options, message):
    with pytest.raises(UsageError) as caught:
        audit("audited_loaders:good", **options)
    assert str(caught.value) == message


def test_the_client_alone_has_the_command(tmp_path):
    """In a process without the server's packages; a report in words, and the exit status."""
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError('no typer', name='typer')")
    words = [sys.executable, "-m", "stoker.client.audit", "audited_loaders:one_seed"]
    words += ["--question=seeds", "--question=ranks", f"--python-path={HERE}"]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "a first run ...\nseed 1 ...\n"
    assert done.stdout == (
        "FINDING seeds    constant    seed 1 is seed 0, all 6 batches (the whole epoch), 24 rows\n"
        "-       ranks    not asked   audited_loaders:one_seed takes no rank= and world_size=\n"
        "audited_loaders:one_seed: 1 finding in 1 of 2 questions\n"
    )
    done = subprocess.run(
        [*words, "--batches=0"], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "stoker: audit: batches=0: expected an integer from 1\n"


def answered(found):
    return {name: answer for name, (answer, _, _) in found.items() if answer != "not asked"}


def finding_names(found):
    return {name for name, (_, is_finding, _) in found.items() if is_finding}


@pytest.mark.usefixtures("forked_runs")
def test_a_torch_loader_whose_workers_copy_one_generator():
    pytest.importorskip("torch")
    found = answers("global_generator", module="audited_torch")
    assert answered(found) == {
        "repeat": "same", "workers": "differs", "rows": "differs", "draws": "duplicates",
        "seeds": "differs", "epochs": "differs",
    }  # fmt: skip
    assert finding_names(found) == {"workers", "draws"}
    assert "the same ids come in the same order with other values" in found["workers"][2]
    assert "batch 1 row 0 draws what batch 0 row 0 drew" in found["draws"][2]


@pytest.mark.usefixtures("forked_runs")
def test_a_torch_loader_whose_workers_have_seeds_still_depends_on_their_number():
    pytest.importorskip("torch")
    chosen = ("--question=workers", "--question=draws")
    found = answers("worker_seeds", *chosen, module="audited_torch")
    assert answered(found) == {"workers": "differs", "draws": "differs"}
    assert finding_names(found) == {"workers"}


@pytest.mark.usefixtures("forked_runs")
def test_a_distributed_sampler_needs_set_epoch():
    pytest.importorskip("torch")
    chosen = ("--question=epochs", "--question=ranks")
    found = answers("without_set_epoch", *chosen, module="audited_torch")
    assert answered(found) == {"epochs": "constant", "ranks": "differs"}
    assert finding_names(found) == {"epochs"}
    found = answers("with_set_epoch", *chosen, module="audited_torch")
    assert answered(found) == {"epochs": "differs", "ranks": "differs"}
    assert not finding_names(found)


def test_grain_keeps_its_promises():
    pytest.importorskip("grain")
    found = answers("grain_dataset", "--batches=4", module="audited_torch")
    assert answered(found) == {
        "repeat": "same", "workers": "same", "rows": "differs", "seeds": "differs",
        "epochs": "differs", "ranks": "differs", "resume": "same",
    }  # fmt: skip
    assert not finding_names(found)


PIPELINES = """
from stoker import ops
from stoker.pipeline import pipeline

@pipeline
def train(sample):
    image = ops.brightness(ops.horizontal_flip(sample.image), factor_range=(0.5, 1.5))
    return {"image": image, "label": sample.label}
"""


@pytest.mark.usefixtures("forked_runs")
def test_stoker_keeps_its_promises(tmp_path, session_folder, monkeypatch):
    """Against a daemon with 1 worker, and one with 2."""
    (tmp_path / "audited_pipelines.py").write_text(PIPELINES)
    rng = np.random.default_rng(0)
    rows = [{"image": rng.integers(0, 256, (6, 8, 3), np.uint8), "label": n} for n in range(24)]
    write(tmp_path / "packed", [schema.image(encoding="raw"), schema.label()], rows)
    flags = [f"--dataset=tiny={tmp_path}/packed", f"--python-path={tmp_path}"]
    with contextlib.ExitStack() as daemons:
        for count in (1, 2):
            folder = session_folder / f"audited{count}"
            folder.mkdir()
            daemons.callback(shutil.rmtree, folder)
            daemon = daemons.enter_context(serving(
                folder, *flags, f"--workers={count}", "--pipeline=train=audited_pipelines:train"
            ))  # fmt: skip
            monkeypatch.setenv(f"AUDITED_DAEMON_{count}", daemon.address)
        found = answers("stoker_loader")
        assert "failed" not in answered(found).values(), found
    assert answered(found) == {
        "repeat": "same", "workers": "same", "rows": "differs", "seeds": "differs",
        "epochs": "differs", "ranks": "differs", "resume": "same",
    }  # fmt: skip
    assert not finding_names(found)
