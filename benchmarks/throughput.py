"""Throughput: Stoker against torch.utils.data.DataLoader and against plain loops, on the same data.

    python benchmarks/throughput.py [--workload w1] [--rounds 3] [--epochs 3] [--workers 2]

`workloads.py` says what the workloads are; their data are made on the first run (benchmarks/data/).
Stoker reads them packed (a, d), and packed as they came where that differs (e, f): JPEGs without a
grid are decoded whole. Rounds are interleaved: each round runs every contender once, in a fresh
process, so that slow drift of the machine meets all of them. The first epoch of a process is its
warm-up. An epoch in which the rest of the machine used more than `NOISE` of one core is dropped,
and the number of dropped epochs is printed. Rates are images a second up to the arrival of the last
batch: median (min..max) over the epochs; ratios are those of the medians. CPU-seconds are those of
the whole process tree, the consumer's share included. Prints Markdown; benchmarks/results/ has
every epoch as JSON.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from workloads import WORKLOADS, packed_of, source_of

HERE = Path(__file__).parent
NOISE = 0.12
CONTENDERS = {
    "a": ("Stoker, daemon and client", "through_daemon.py", "packed", []),
    "b": ("DataLoader, OpenCV (not antialiased)", "torch_loader.py", "", ["--style", "cv2"]),
    "c": ("DataLoader, Pillow", "torch_loader.py", "", ["--style", "pillow"]),
    "d": ("Stoker's pipeline in plain loops", "plain_loops.py", "packed", []),
    "e": ("Stoker, files stored as they came", "through_daemon.py", "whole", []),
    "f": ("plain loops, files stored as they came", "plain_loops.py", "whole", []),
}
RATIOS = ("ab", "ac", "ad", "eb", "ec", "ef", "ae")


def run(letter: str, arguments: argparse.Namespace) -> list[dict[str, float]]:
    """Run a contender once; return its epochs after the first."""
    _, script, how, more = CONTENDERS[letter]
    name, data = arguments.workload, arguments.data
    place = packed_of(data, name, how) if how else source_of(data, name)
    command = [sys.executable, str(HERE / script), str(place), "--workload", name, *more]
    for option in ("workers", "batch_size", "epochs"):
        command += [f"--{option.replace('_', '-')}", str(getattr(arguments, option))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    epochs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(epochs) == arguments.epochs, done.stdout
    return epochs[1:]


def quiet(epochs: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return the epochs that the rest of the machine did not disturb."""
    return [e for e in epochs if e["other_cpu_s"] <= NOISE * e["seconds"]]


def report(results: dict[str, list[dict[str, float]]]) -> str:
    """Return the tables in Markdown."""
    lines = [
        "| | contender | images/s: median (min..max) | epochs | dropped | images per CPU-second |",
        "|---|---|---|---|---|---|",
    ]
    rates, thrifts = {}, {}
    for letter, epochs in results.items():
        kept = quiet(epochs) or epochs
        found = [e["images_per_s"] for e in kept]
        rates[letter] = statistics.median(found)
        thrifts[letter] = statistics.median(e["images"] / e["cpu_s"] for e in kept)
        dropped = str(len(epochs) - len(kept)) if quiet(epochs) else "all noisy, all kept"
        lines.append(
            f"| {letter} | {CONTENDERS[letter][0]} | {rates[letter]:,.0f} "
            f"({min(found):,.0f}..{max(found):,.0f}) | {len(kept)} | {dropped} "
            f"| {thrifts[letter]:,.0f} |"
        )
    lines += ["", "| ratio | of images/s | of images per CPU-second |", "|---|---|---|"]
    for one, other in RATIOS:
        if {one, other} <= rates.keys():
            ratios = (rates[one] / rates[other], thrifts[one] / thrifts[other])
            lines.append(f"| {one}/{other} | {ratios[0]:.3f} | {ratios[1]:.3f} |")
    return "\n".join(lines)


def machine() -> str:
    """Describe what it ran on."""
    names = ("numba", "numpy", "opencv-python-headless", "pillow", "simplejpeg", "torch")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return (
        f"{model}, {len(os.sched_getaffinity(0))} cores, Linux {platform.release()}, "
        f"Python {platform.python_version()}, {versions}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--workload", choices=WORKLOADS, default="w1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4, help="of a process; the first warms up")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, help="default: the workload's")
    parser.add_argument("--only", help="letters of the contenders to run")
    arguments = parser.parse_args()
    workload = WORKLOADS[arguments.workload]
    arguments.batch_size = arguments.batch_size or workload.batch_size
    letters = arguments.only or workload.letters
    results: dict[str, list[dict[str, float]]] = {letter: [] for letter in letters}
    for number in range(arguments.rounds):
        for letter in letters:
            print(f"round {number + 1}: {CONTENDERS[letter][0]}", file=sys.stderr, flush=True)
            results[letter] += run(letter, arguments)
    title = f"{arguments.workload}: {workload.what}, batch {arguments.batch_size}"
    print(title, machine(), report(results), sep="\n\n")
    out = HERE / "results"
    out.mkdir(exist_ok=True)
    found = {"machine": machine(), "epochs": results}
    (out / f"{arguments.workload}.json").write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
