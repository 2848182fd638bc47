"""Run jobs in worker processes, each started clean by exec, and yield results as they finish.

There is no fork of a process that may have threads, no second import of the user's main module, and
no pickle: jobs and answers are JSON lines on pipes. A worker that dies ends the run with an error
that names its job. However the run ends (by result, error or interrupt), no worker is left.
"""

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import msgspec

from stoker.protocol.errors import DataError, UsageError, from_record
from stoker.protocol.importing import without_working_folder

Report = Callable[[int, int], None]
"""Receives the progress of a job: (rows, bytes) done since the last call."""
_READ_BYTES = 2**16


@dataclass(frozen=True)
class Job:
    """A call of a function in `job_worker.JOBS`; `what` names it in errors."""

    run: Callable[[Any, Report], Any]
    argument: Any
    what: str


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    job: int = -1
    pending: bytes = b""
    answers: IO[bytes] = field(init=False)

    def __post_init__(self) -> None:
        assert self.process.stdout is not None
        self.answers = self.process.stdout


def default_workers() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


def check_workers(workers: int) -> None:
    """Refuse a number of processes below 1.

    Raises:
        UsageError: it is.
    """
    if workers < 1:
        raise UsageError(f"--workers: expected at least 1 worker, got {workers}")


def run_jobs(jobs: Sequence[Job], workers: int, report: Report) -> Generator[tuple[int, Any]]:
    """Run jobs and yield (number, result in JSON form) as they finish.

    Args:
        jobs: the jobs, started in order.
        workers: maximum number of processes; 1 runs all jobs in this one.
        report: receives progress, as (rows, bytes) done since the last call.

    Raises:
        StokerError: a job raised it.
        DataError: a worker died.
    """
    if workers <= 1 or len(jobs) <= 1:
        for number, job in enumerate(jobs):
            yield number, job.run(job.argument, report)
        return
    pool = [_start() for _ in range(min(workers, len(jobs)))]
    try:
        yield from _serve(pool, jobs, report)
    finally:
        for worker in pool:
            worker.process.kill()
            worker.process.communicate()


def _start() -> _Worker:
    command = [sys.executable, "-P", "-m", "stoker.dataset.packing.job_worker", str(os.getpid())]
    return _Worker(
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=without_working_folder(os.environ),
        )
    )


def _serve(
    pool: Sequence[_Worker], jobs: Sequence[Job], report: Report
) -> Iterator[tuple[int, Any]]:
    waiting = iter(range(len(jobs)))
    with selectors.DefaultSelector() as selector:
        for worker in pool:
            selector.register(worker.answers, selectors.EVENT_READ, worker)
            _give(worker, jobs, next(waiting))
        done = 0
        while done < len(jobs):
            for key, _ in selector.select():
                worker = key.data
                for number, result in _answers(worker, jobs, report):
                    done += 1
                    following = next(waiting, None)
                    if following is not None:
                        _give(worker, jobs, following)
                    yield number, result


def _give(worker: _Worker, jobs: Sequence[Job], number: int) -> None:
    assert worker.process.stdin is not None
    worker.job = number
    job = jobs[number]
    try:
        worker.process.stdin.write(msgspec.json.encode([job.run.__name__, job.argument]) + b"\n")
    except BrokenPipeError:
        raise _died(worker, jobs) from None


def _answers(worker: _Worker, jobs: Sequence[Job], report: Report) -> Iterator[tuple[int, Any]]:
    """Read what a worker sent; report progress, yield results."""
    data = os.read(worker.answers.fileno(), _READ_BYTES)
    if not data:
        raise _died(worker, jobs)
    *lines, worker.pending = (worker.pending + data).split(b"\n")
    for line in lines:
        kind, *rest = msgspec.json.decode(line)
        if kind == "progress":
            report(*rest)
        elif kind == "error":
            raise from_record(*rest)
        else:
            yield worker.job, rest[0]


def _died(worker: _Worker, jobs: Sequence[Job]) -> DataError:
    code = worker.process.wait()
    how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit status {code}"
    return DataError(
        f"a worker process ended {how} while {jobs[worker.job].what}; run the same command again "
        "(finished work is kept), with --workers 1 for more details, and check the machine's memory"
    )
