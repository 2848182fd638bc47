"""Starting runs as processes: each ends by its deadline, with all processes that it started.

A run has a session of its own. Its process group is always killed at the end: workers
of a loader that hangs or crashed do not stay. A private daemon has its own session, and ends with
its client.
"""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from stoker.client.audit.audited_run import AuditedRun
from stoker.client.audit.loader_factory import is_users
from stoker.client.audit.seen_batches import SeenRun, read_run
from stoker.protocol.importing import without_working_folder

GRACE_S: Final = 10.0
"""A process that does not end itself when its time is over is killed so much later."""
_UNWARNED: Final = ("-W", "ignore::RuntimeWarning:runpy")
"""Python warns of a module that its package has imported; it would be the last word of a run."""
_FRAME: Final = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<name>.+)$', re.M)


def perform(run: AuditedRun) -> SeenRun:
    """Run a loader in a new process; return what it delivered, or why it failed."""
    with tempfile.TemporaryDirectory(prefix="stoker-audit-") as folder:
        batches, said = Path(folder, "batches"), Path(folder, "stderr")
        batches.touch()
        with said.open("wb") as errors:
            code = executed(
                ["-m", "stoker.client.audit.audited_run", str(batches), _as_json(run)],
                run.timeout_s + GRACE_S, errors.fileno(),
            )  # fmt: skip
        with batches.open("rb") as lines:
            found = read_run(lines)
        if code != 0 and not found.failed:
            found.failed = _ending(code, said.read_text(errors="replace"), run, found)
    if not found.failed and not found.missing and not found.loop.batches:
        found.failed = "the loader delivers no batches"
    return found


def _as_json(run: AuditedRun) -> str:
    return msgspec.json.encode(run).decode()


def executed(arguments: list[str], timeout_s: float, errors: int) -> int | None:
    """Run a Python process and all that it starts; return its exit status, None: time is over."""
    process = subprocess.Popen(
        [sys.executable, "-P", *_UNWARNED, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        env=without_working_folder(os.environ),
        start_new_session=True,
    )
    watched = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        ended = bool(poll.poll(timeout_s * 1000))
    finally:
        os.close(watched)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # before it is reaped: the number is still its
        code = process.wait()
    return code if ended else None


def _ending(code: int | None, said: str, run: AuditedRun, found: SeenRun) -> str:
    """Return in words how a process ended that did not say so itself."""
    count = sum(len(loop.batches) for loop in found.loops)
    after = f"after {count} batch{'es' * (count != 1)}"
    if code is None or "Timeout (" in said:
        # The last thread is the main one; its innermost frame comes first.
        frames = list(_FRAME.finditer(said.rpartition("Thread 0x")[2]))
        own = [frame for frame in frames if is_users(frame["file"])]
        at = (own or frames)[:1]
        where = "".join(f", in {one['file']}:{one['line']} {one['name']}" for one in at)
        return f"it did not end within {run.timeout_s:g} s, {after}{where}"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"{signal.Signals(-code).name} ended its process {after}"
    words = (said.strip().splitlines() or ["no word"])[-1]
    return f"its process ended with status {code} {after}: {words[:500]}"
