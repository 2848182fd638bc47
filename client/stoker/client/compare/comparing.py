"""`compare`: measures two loaders in turns, and puts them side by side."""

import os
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from stoker.client.audit.run_processes import executed
from stoker.client.compare.compared_run import ComparedRun, Measured
from stoker.protocol.analysis import analyzed
from stoker.protocol.errors import UsageError
from stoker.protocol.spec import as_integer

START_S: Final = 300.0
"""Seconds that a measurement may take in addition to measuring: a cold start compiles."""


@dataclass(frozen=True)
class ComparedSide:
    """The results of one loader; the median of all rounds.

    Attributes:
        rows_per_s: images or other rows, as they arrived.
        cpu_s_per_1000: CPU seconds of all its processes for 1,000 rows.
        first_batch_s: from the call that makes the loader to its first batch.
        memory_bytes: peak memory of all its processes; pages that they share count once.
        batch_rows: rows of its first batch.
        least_rows_per_s: of the slowest round.
        most_rows_per_s: of the fastest round.
    """

    rows_per_s: float
    cpu_s_per_1000: float
    first_batch_s: float
    memory_bytes: float
    batch_rows: int
    least_rows_per_s: float
    most_rows_per_s: float


@dataclass(frozen=True)
class Comparison:
    """Two loaders side by side.

    Attributes:
        theirs: of the function.
        stoker: of Stoker.
        rounds: measurements of each.
        notes: what makes the comparison doubtful, in sentences.
    """

    theirs: ComparedSide
    stoker: ComparedSide
    rounds: int
    notes: tuple[str, ...]


def compare(  # noqa: PLR0913 - each is one decision of the user
    dataset: str,
    pipeline: str,
    against: str,
    *,
    workers: int,
    stream: Mapping[str, Any],
    rounds: int = 3,
    seconds: float = 3.0,
    python_path: Sequence[str] = (),
    progress: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """Measure Stoker and another loader in turns, each time in a new process.

    Args:
        dataset: folder of the dataset, for Stoker.
        pipeline: `module:attribute` of the pipeline, for Stoker.
        against: `module:function` that makes the other loader, as `audit` takes it.
        workers: worker processes of each.
        stream: options of Stoker's stream by name, as `read_option` takes them.
        rounds: measurements of each loader; in every other round Stoker is first.
        seconds: of each measurement, after the first batches.
        python_path: folders to import modules from, besides the working folder.
        progress: called with the name of each measurement before it begins.

    Raises:
        UsageError: a number is out of bounds, or a measurement failed; the message says why.
    """
    for name, number in {"rounds": rounds, "workers": workers}.items():
        if (as_integer(number) or 0) < 1:
            raise UsageError(f"compare: {name}={number!r}: expected an integer from 1")
    if not 0 < seconds <= 3600:
        raise UsageError(f"compare: seconds={seconds!r}: expected a number up to 3600")
    folders = [os.path.abspath(folder) for folder in (*python_path, os.curdir)]
    theirs = ComparedRun(factory=against, workers=workers, seconds=seconds, python_path=folders)
    ours = ComparedRun(
        dataset=dataset, pipeline=pipeline, stream=dict(stream), workers=workers, seconds=seconds,
        python_path=folders,
    )  # fmt: skip
    sides: list[tuple[str, ComparedRun, list[Measured]]] = [
        (against, theirs, []), ("Stoker", ours, [])
    ]  # fmt: skip
    for number in range(rounds):
        for name, run, found in sides if number % 2 == 0 else reversed(sides):
            progress(f"round {number + 1} of {rounds}: {name}")
            found.append(_measured(name, run))
    (_, _, of_theirs), (_, _, of_ours) = sides
    notes = _notes(against, of_theirs, of_ours)
    return Comparison(_side(of_theirs), _side(of_ours), rounds, notes)


def _measured(name: str, run: ComparedRun) -> Measured:
    with tempfile.TemporaryDirectory(prefix="stoker-compare-") as folder:
        result, said = Path(folder, "result"), Path(folder, "stderr")
        arguments = ["-m", "stoker.client.compare.compared_run", str(result)]
        with said.open("wb") as errors:
            code = executed(
                [*arguments, msgspec.json.encode(run).decode()],
                START_S + 4 * run.seconds, errors.fileno(),
            )  # fmt: skip
        if code is None:
            raise UsageError(
                f"compare: {name} did not end within {START_S + 4 * run.seconds:.0f} s; `stoker"
                " audit` says where it hangs"
            )
        if code or not result.exists():
            last = (said.read_text(errors="replace").strip().splitlines() or ["no word"])[-1]
            raise UsageError(f"compare: {name} ended with status {code}: {last[:500]}")
        found = msgspec.json.decode(result.read_bytes(), type=analyzed(Measured))
    if found.failed:
        raise UsageError(f"compare: {name}: {found.failed}")
    return found


def _side(found: Sequence[Measured]) -> ComparedSide:
    rates = [one.rows / one.seconds for one in found]
    return ComparedSide(
        rows_per_s=statistics.median(rates),
        cpu_s_per_1000=statistics.median(1000 * one.cpu_s / max(one.rows, 1) for one in found),
        first_batch_s=statistics.median(one.first_batch_s for one in found),
        memory_bytes=statistics.median(one.memory_bytes for one in found),
        batch_rows=found[0].batch_rows,
        least_rows_per_s=min(rates),
        most_rows_per_s=max(rates),
    )


BUSY: Final = 0.1
"""Other processes may use this part of the processors."""
SPREAD: Final = 1.3
"""The rates of one loader may differ by this factor."""


def _notes(against: str, theirs: Sequence[Measured], ours: Sequence[Measured]) -> tuple[str, ...]:
    """Return what makes a comparison doubtful."""
    notes = []
    if not theirs[0].takes_workers:
        notes.append(f"{against} takes no workers=: it had as many as it makes itself")
    if theirs[0].batch_rows != ours[0].batch_rows:
        notes.append(
            f"batches differ: {theirs[0].batch_rows} rows of {against}, {ours[0].batch_rows} of"
            " Stoker; --batch-size is Stoker's"
        )
    others = max(one.others for one in (*theirs, *ours))
    if others > BUSY * len(os.sched_getaffinity(0)):
        notes.append(f"other processes kept {others:.1f} processors busy")
    for name, found in ((against, theirs), ("Stoker", ours)):
        rates = [one.rows / one.seconds for one in found]
        if max(rates) > SPREAD * max(min(rates), 1e-9):
            notes.append(f"rates of {name} vary from {min(rates):,.0f} to {max(rates):,.0f} rows/s")
    return tuple(notes)
