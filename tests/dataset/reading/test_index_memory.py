"""A large index: opening reads next to none of it, and a further worker has next to none of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "index_memory.py"


def measure(rows: int) -> dict:
    command = [sys.executable, str(SCRIPT), "--rows", str(rows), "--workers", "3"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=150)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_further_worker_costs_the_same_however_large_the_index_is():
    """A worker adds only its own tables: for 84 MB more of index, less than a hundredth of that.

    At 10,000,000 samples this is 0.3 % of the index; see docs/performance.md.
    """
    small, large = measure(200_000), measure(1_200_000)
    grown = 1024 * (large["further_worker_kib"] - small["further_worker_kib"])
    assert grown < 0.01 * (large["index_bytes"] - small["index_bytes"])
    assert large["bytes_a_sample"] <= 200
    assert 0 < large["open_kib"] < 0.01 * large["index_bytes"] / 1024, "opening reads the index"
    assert large["pss_one_worker_kib"] > 4 * small["pss_one_worker_kib"]
