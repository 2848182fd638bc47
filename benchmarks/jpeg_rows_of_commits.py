"""A row of `w1` by two checkouts of Stoker, in turns: what a change of its code saves.

    python benchmarks/jpeg_rows_of_commits.py OLD NEW PACKED [--pairs 4]

OLD and NEW are folders of checkouts, for example of `git worktree`. A pair is one process of each;
both compute the same batches of 8 rows by turns, as `jpeg_rows.py` of this checkout does, after
they have loaded or compiled their kernels. Numbers are those of `jpeg_rows.py`: CPU time in
microseconds a row, for each batch the least of all rounds, then their mean; one line for each
process. Processes differ by some percent, so there are several pairs.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

BATCHES, ROUNDS = 40, 9
SOURCES = ("protocol", "server", "client")
CHILD = """
import json, sys, time
from pathlib import Path
import jpeg_rows
from stoker.dataset.images.jpeg.decoding import choose_decoder
jpeg_rows.BATCH = 8
choose_decoder("stoker")
spent = dict.fromkeys(jpeg_rows.SPLIT, 0.0)
for name in jpeg_rows.SPLIT:
    jpeg_rows.timed(name, spent)
fill = jpeg_rows.batches_of(Path(sys.argv[1]))
print("ready", flush=True)
for line in sys.stdin:
    spent.update(dict.fromkeys(spent, 0.0))
    begun = time.process_time_ns()
    fill(int(line))
    whole = time.process_time_ns() - begun
    print(json.dumps([n / 8000 for n in (whole, *spent.values())]), flush=True)
"""


class Checkout:
    """A process that computes batches by the code of a checkout."""

    def __init__(self, folder: Path, packed: Path) -> None:
        """Start it; return when its kernels are there."""
        here = Path(__file__).parent
        paths = [str(folder.resolve() / name) for name in SOURCES] + [str(here)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(packed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a process has ended: see its error above")
        return line

    def batch(self, step: int) -> list[float]:
        """Compute a batch; return microseconds a row: all, head, pixels, decoder."""
        assert self._process.stdin is not None
        print(step, file=self._process.stdin, flush=True)
        found: list[float] = json.loads(self._line())
        return found

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def main() -> None:
    """Print a line for each process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("packed", type=Path)
    parser.add_argument("--pairs", type=int, default=4)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    print(f"{'row':>8}{'head':>8}{'pixels':>8}{'calls':>8}{'rest':>8}")
    for _ in range(arguments.pairs):
        pair = [Checkout(folder, arguments.packed) for folder in (arguments.old, arguments.new)]
        least = np.full((2, BATCHES, 4), np.inf)
        for _ in range(ROUNDS):
            for step in rng.permutation(BATCHES).tolist():
                for number in rng.permutation(2).tolist():
                    row = np.array(pair[number].batch(step))
                    if row[0] < least[number, step, 0]:
                        least[number, step] = row
        for name, process, (row, head, pixels, decode) in zip(
            ("old", "new"), pair, least.mean(1), strict=True
        ):
            process.close()
            parts = row, head, pixels, decode - head - pixels, row - decode
            print("".join(f"{part:8.1f}" for part in parts), name, flush=True)


if __name__ == "__main__":
    main()
