"""Proof: how busy a loader with two cores keeps an accelerator.

    python benchmarks/busy_accelerator.py [--rounds 2] [--peer dali=/path/to/its/python ...]
        [--data DIR]

The accelerator is emulated (`accelerator.py`) with the times that MLPerf Storage publishes for
ResNet-50 on an H100: a batch of 400 images takes 0.224 s. **This is not a result of MLPerf.**
MLPerf Storage measures storage and leaves preprocessing out; here the files are in the page cache,
and each loader decodes JPEGs and augments: random resized crop to 224 and flip (`w1`).

The loaders run one after another on the same 8,000 files (2,000 different ones, linked four times)
and on the same two cores. The first steps do not count (`accelerator.SKIPPED`). Utilization is the
time in which the accelerator was busy, divided by wall time. The cores for 90 % follow from the
images per CPU-second, as if a loader's rate grew with its cores. A peer takes part if its
interpreter is given (`peers/README.md`).
"""

import argparse
import os
import statistics
import sys
from pathlib import Path
from typing import Any

from contenders import CONTENDERS, output_of
from throughput import lines_of, machine, peer
from workloads import source_of

HERE = Path(__file__).parent
NAMES = ("a", "j", "b", "torchvision", "tfdata", "dali", "ffcv")
CORES, BATCH, STEP_S, GOAL, LINKS = 2, 400, 0.224, 0.9, 4


def linked(data: Path) -> Path:
    """Return a folder of data in which each photograph has four names; make it on first use."""
    source, folder = source_of(data, "w1"), data / "proofs"
    if not (folder / "images.json").exists():
        for file in sorted(source.glob("*/*.jpg")):
            place = folder / "images" / file.parent.name
            place.mkdir(parents=True, exist_ok=True)
            for turn in range(LINKS):
                link = place / f"{file.stem}-{turn}.jpg"
                link.unlink(missing_ok=True)
                os.link(file.resolve(), link)
        (folder / "images.json").write_text("{}\n")
    return folder


def measured(name: str, data: Path, peers: dict[str, str]) -> dict[str, Any]:
    """Run a loader once; return what its accelerator saw, and versions."""
    options = {"workers": CORES, "batch-size": BATCH, "epochs": 1, "step-s": STEP_S}
    found: dict[str, Any] = {}
    for line in lines_of(output_of(name, "w1", data, peers, options)):
        found |= line
    return found


def row(name: str, runs: list[dict[str, Any]]) -> str:
    """Return the row of a loader: medians of its runs."""
    what = CONTENDERS[name].what
    if not runs:
        return f"| {what} | not measured: it is not installed | | | |"
    shares = [run["busy_s"] / run["seconds"] for run in runs]
    per_cpu_s = statistics.median(run["images"] / run["cpu_s"] for run in runs)
    other = statistics.median(run["other_cpu_s"] / run["seconds"] for run in runs)
    spread = f"{min(shares):.0%}..{max(shares):.0%}"
    return (
        f"| {what} | {statistics.median(shares):.0%} ({spread}) "
        f"| {per_cpu_s:,.0f} "
        f"| {GOAL * BATCH / STEP_S / per_cpu_s:.1f} | {other:.2f} |"
    )


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", choices=NAMES, nargs="+", default=NAMES)
    parser.add_argument("--peer", type=peer, action="append", default=[], metavar="NAME=PYTHON")
    given = parser.parse_args()
    peers, data = dict(given.peer), linked(given.data)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in given.only}
    for number in range(given.rounds):
        for name in given.only:
            if CONTENDERS[name].peer in ("", *peers):
                print(f"round {number + 1}: {CONTENDERS[name].what}", file=sys.stderr, flush=True)
                runs[name].append(measured(name, data, peers))
    versions: dict[str, str] = {}
    for run in (run for found in runs.values() for run in found):
        versions |= run.get("versions", {})
    versions.pop("Python", None)
    told = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    print(f"{machine()}; peers: {told or 'none'}. {given.rounds} rounds.\n")
    print("| loader | utilization | images per CPU-second | cores for 90 % | other load |")
    print("|---|---|---|---|---|")
    for name in given.only:
        print(row(name, runs[name]), flush=True)


if __name__ == "__main__":
    main()
