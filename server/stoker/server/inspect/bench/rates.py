"""Rates through processes: a daemon and a client, or torch's DataLoader; each run is one child.

A child prints one JSON line, is given a deadline, and leaves nothing behind.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.protocol.errors import UsageError

START_S = 180.0
"""Seconds that a child may take in addition to measuring: a cold start compiles."""


@dataclass(frozen=True)
class Rate:
    """The results of one run.

    Attributes:
        workers: processes that computed rows.
        rows_per_s: as they arrived.
        first_batch_s: from the start of the loader to its first batch.
        client_s: CPU seconds of the consumer's process for each row.
        daemon_s: CPU seconds of the daemon's process for each row, its workers apart.
        waited: part of the time in which the consumer waited for a batch, 0 to 1.
        others: processors that other processes kept busy meanwhile; 0 if that was not measured.
    """

    workers: int
    rows_per_s: float
    first_batch_s: float
    client_s: float
    daemon_s: float
    waited: float
    others: float = 0.0


def through_daemon(
    dataset: str, pipeline: str, python_path: Sequence[str], options: Mapping[str, float | str]
) -> Rate:
    """Measure a private daemon and a client.

    Args:
        dataset: folder of the dataset.
        pipeline: module:attribute.
        python_path: folders to import the pipeline from.
        options: workers, seconds, and `stream`: options of a stream, by name, as JSON.

    Raises:
        UsageError: the run failed; the message has its last words.
    """
    return _run("stoker.client.measure", dataset, pipeline, python_path, options)


def through_torch(
    dataset: str, pipeline: str, python_path: Sequence[str], options: Mapping[str, float | str]
) -> Rate:
    """Measure torch's DataLoader with the same pipeline in process; arguments as above.

    Its options are workers, seconds, batch-size, and `exclude`, a file of samples to leave out.

    Raises:
        UsageError: the run failed; the message has its last words.
    """
    return _run("stoker.server.inspect.bench.torch_rows", dataset, pipeline, python_path, options)


def _run(
    module: str,
    dataset: str,
    pipeline: str,
    python_path: Sequence[str],
    options: Mapping[str, float | str],
) -> Rate:
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    flags += [f"--python-path={os.path.abspath(folder)}" for folder in (*python_path, ".")]
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", module, dataset, pipeline, *flags],
            capture_output=True,
            text=True,
            timeout=START_S + 4 * float(options["seconds"]),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(
            f"stoker bench: {module} did not end within {error.timeout:.0f} s; is the machine busy?"
        ) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise UsageError(f"stoker bench: {module} failed: {last}")
    found = json.loads(done.stdout.splitlines()[-1])
    return Rate(
        workers=int(options["workers"]),
        rows_per_s=found["rows"] / found["seconds"],
        first_batch_s=found["first_batch_s"],
        client_s=found["client_cpu_s"] / max(found["rows"], 1),
        daemon_s=found.get("daemon_cpu_s", 0.0) / max(found["rows"], 1),
        waited=min(found["wait_s"] / found["seconds"], 1.0),
        others=found.get("others", 0.0),
    )
