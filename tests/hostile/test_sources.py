"""Damaged or hostile tar, Arrow, Parquet, FFCV and Hugging Face files: data, or a typed error."""

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("mutations.py")
KINDS = ("arrow_stream", "arrow_file", "parquet", "huggingface", "tar", "ffcv")
GROUPS = (KINDS[:3], KINDS[3:])


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kinds", GROUPS, ids=",".join)
def test_mutated_files_are_read_or_refused(tmp_path, rounds, kinds):
    count, faults, seen = rounds(40), [], Counter()
    done = subprocess.run(
        [sys.executable, str(SCRIPT), ",".join(kinds), "0", str(count), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in map(json.loads, done.stdout.splitlines()):
        seen[line["kind"]] += 1
        if "Traceback" in line["outcome"]:
            faults.append(f"{line['kind']} {line['mutation']}: {line['outcome']}")
    how = signal.Signals(-done.returncode).name if done.returncode < 0 else done.returncode
    assert done.returncode == 0, f"{how} after {dict(seen)}: {done.stderr[-2000:]}"
    assert not faults, "\n".join(faults[:5])
    assert seen == dict.fromkeys(kinds, count)
