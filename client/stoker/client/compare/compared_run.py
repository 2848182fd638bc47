"""One measurement of a comparison, in a process of its own.

    python -P -m stoker.client.compare.compared_run FILE RUN

RUN is a `ComparedRun` as JSON; FILE gets a `Measured` as JSON. Both sides are measured by the same
code: batches are taken and dropped, epoch after epoch. Times in seconds, memory in bytes.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from stoker.client.audit.loader_factory import LoaderFactory, in_words
from stoker.client.measure import measured_loader
from stoker.client.process_family import family_cpu_s, family_memory_bytes, others_cpu_s
from stoker.client.row_summaries import row_count
from stoker.protocol.analysis import analyzed
from stoker.protocol.errors import UsageError
from stoker.protocol.importing import add_folders

WARM_BATCHES: Final = 8
WARM_S: Final = 0.5
"""Batches and seconds after the first batch that are not measured: buffers fill meanwhile."""
LOOK_S: Final = 0.5
"""Seconds between two looks at memory."""


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement: of a loader that a function makes, or of Stoker.

    Attributes:
        factory: `module:function`; None measures Stoker.
        dataset: folder of the dataset, of Stoker alone.
        pipeline: `module:attribute`, of Stoker alone.
        stream: options of the stream by name, of Stoker alone.
        workers: worker processes.
        seconds: to measure.
        python_path: folders that modules are imported from.
    """

    factory: str | None = None
    dataset: str = ""
    pipeline: str = ""
    stream: dict[str, Any] = {}
    workers: int = 1
    seconds: float = 3.0
    python_path: list[str] = []


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a measurement.

    Attributes:
        rows: that arrived in `seconds`.
        seconds: of the measurement.
        batch_rows: rows of the first batch.
        cpu_s: CPU seconds of the process and all that it started, meanwhile.
        first_batch_s: from the call that makes the loader to its first batch.
        memory_bytes: greatest memory of all of them, shared pages once.
        others: processors that other processes kept busy meanwhile.
        takes_workers: False if the function does not take their number.
        failed: why nothing was measured; empty if it was.
    """

    rows: int = 0
    seconds: float = 1.0
    batch_rows: int = 0
    cpu_s: float = 0.0
    first_batch_s: float = 0.0
    memory_bytes: int = 0
    others: float = 0.0
    takes_workers: bool = True
    failed: str = ""


def main() -> int:
    """Measure; return the exit status."""
    run = msgspec.json.decode(sys.argv[2], type=analyzed(ComparedRun))
    add_folders(run.python_path)
    try:
        found = _measured(run)
    except Exception as error:  # an error of the user's code takes the place of the measurement
        found = Measured(failed=in_words(error))
    Path(sys.argv[1]).write_bytes(msgspec.json.encode(found))
    return 0


def _measured(run: ComparedRun) -> Measured:
    arguments = {"workers": run.workers, "seed": 0, "epoch": 0, "rank": 0, "world_size": 1}
    factory = None if run.factory is None else LoaderFactory(run.factory)
    with _PeakMemory() as memory:
        begun = time.perf_counter()
        if factory is None:
            loader: Any = measured_loader(run.dataset, run.pipeline, run.workers, run.stream)
        else:
            loader = factory.make({**arguments, "only": None})
        found = _loop(loader, begun, run.seconds, memory)
        if hasattr(loader, "close"):
            loader.close()
    takes = factory is None or "workers" in factory.takes
    return msgspec.structs.replace(found, takes_workers=takes)


def _loop(loader: Any, begun: float, seconds: float, memory: "_PeakMemory") -> Measured:
    """Take batches for a number of seconds, after the first ones."""
    pid = os.getpid()
    rows = batch_rows = 0
    first_s = start = cpu_s = others_s = 0.0
    for number, batch in enumerate(_endless(loader)):
        now = time.perf_counter()
        count = row_count(batch)
        first_s, batch_rows = first_s or now - begun, batch_rows or count
        rows += count
        if not start and number >= WARM_BATCHES and now - begun - first_s > WARM_S:
            cpu_s, others_s = family_cpu_s(pid), others_cpu_s(pid)
            start, rows = time.perf_counter(), 0
        elif start and now - start >= seconds:
            took = now - start
            return Measured(
                rows=rows, seconds=took, batch_rows=batch_rows, first_batch_s=first_s,
                cpu_s=family_cpu_s(pid) - cpu_s, memory_bytes=memory.look(),
                others=max(others_cpu_s(pid) - others_s, 0.0) / took,
            )  # fmt: skip
    raise AssertionError("an endless loop ended")


def _endless(loader: Any) -> Iterator[Any]:
    """Yield the batches of one epoch after the other.

    Raises:
        UsageError: a loop delivers nothing.
    """
    loops = 0
    while True:
        batches = 0
        for batch in loader:
            batches += 1
            yield batch
        if not batches:
            raise UsageError(
                "the loader delivers no batches" if not loops else
                "the second loop over the loader delivers no batches: make one that can be read"
                " again, such as a DataLoader instead of its iterator"
            )  # fmt: skip
        loops += 1


class _PeakMemory(contextlib.AbstractContextManager["_PeakMemory"]):
    """The greatest memory of this process and its descendants, looked at by a thread."""

    def __init__(self) -> None:
        self._peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_S):
            self.look()

    def look(self) -> int:
        """Look once more; return the peak in bytes."""
        self._peak = max(self._peak, family_memory_bytes(os.getpid()))
        return self._peak

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


if __name__ == "__main__":
    sys.exit(main())
