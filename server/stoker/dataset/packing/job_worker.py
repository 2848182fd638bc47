"""A worker process of packing and verifying: `python -m stoker.dataset.packing.job_worker PARENT`.

Reads jobs as JSON lines from its standard input, one at a time, and answers on its original
standard output: `["progress", rows, bytes]`, then `["result", data]` or
`["error", code, message, details]`. Anything else that is printed goes to standard error. It ends
with its input, and the kernel ends it with its parent; it ignores interrupts, which the parent
handles.

A job is the name of a function in `JOBS` and its argument in JSON form; its result is JSON too. The
same functions run in process if there is only one worker. They report progress as (rows, bytes).
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from stoker.dataset.packing.pack_shard import pack_shard
from stoker.dataset.packing.pool import Report
from stoker.dataset.packing.verify_rows import verify_rows
from stoker.protocol.errors import StokerError

JOBS: Final[dict[str, Callable[[Any, Report], Any]]] = {
    "pack_shard": pack_shard,
    "verify_rows": verify_rows,
}
_PR_SET_PDEATHSIG = 1
_REPORT_S = 0.1


def main() -> None:
    """Serve jobs until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(sys.argv[1]):  # the parent died before the kernel watched it
        return
    answers = os.dup(1)
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        name, argument = msgspec.json.decode(line)
        _send(answers, _run(name, argument, answers))


def _run(name: str, argument: Any, answers: int) -> list[Any]:
    sent_at, rows, size_bytes = time.monotonic(), 0, 0

    def report(more_rows: int, more_bytes: int) -> None:
        nonlocal sent_at, rows, size_bytes
        rows, size_bytes, now = rows + more_rows, size_bytes + more_bytes, time.monotonic()
        if now - sent_at >= _REPORT_S:
            _send(answers, ["progress", rows, size_bytes])
            sent_at, rows, size_bytes = now, 0, 0

    try:
        result = JOBS[name](argument, report)
    except StokerError as error:
        return ["error", *error.to_record()]
    _send(answers, ["progress", rows, size_bytes])
    return ["result", result]


def _send(answers: int, message: list[Any]) -> None:
    data = memoryview(msgspec.json.encode(message) + b"\n")
    while data:
        data = data[os.write(answers, data) :]


if __name__ == "__main__":
    main()
