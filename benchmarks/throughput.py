"""Throughput: Stoker against other loaders and against plain loops, on the same data.

    python benchmarks/throughput.py [--workload w1 w2] [--rounds 3] [--epochs 4] [--workers 2]
        [--peer dali=/path/to/its/python ...] [--data DIR] [--out DIR] [--check]

`workloads.py` defines the workloads and `contenders.py` the contenders. A peer takes part if its
interpreter is given (`peers/README.md`). The data are made on the first run (benchmarks/data/), or
are in DIR (`foreign_data.py`). Stoker reads them packed (a, d), and packed unchanged if that
differs (e, f): JPEGs without a grid are decoded whole.

Rounds are interleaved: each round runs every contender once, in a fresh process, so that slow drift
of the machine affects all of them. Each runs in a separate session, because Linux shares a busy
processor between sessions and Stoker's private daemon is one. The first epoch of a process is its
warm-up. Rates are images per second up to the arrival of the last batch. CPU-seconds are those of
the whole process tree, including the consumer. Every epoch is written to OUT/<workload>.json, from
which `report.py` makes tables and the plot; the table is printed as well.

`--check` measures nothing: it compares the contents of the contenders' batches (`check.py`).
"""

import argparse
import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from check import compare
from contenders import CONTENDERS, OURS, PEERS, chosen, output_of
from report import table
from workloads import WORKLOADS

HERE = Path(__file__).parent


def lines_of(output: str) -> list[dict[str, Any]]:
    """Return the JSON lines in a contender's output."""
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def run(name: str, workload: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Run a contender once; return its records: one per epoch, or its versions."""
    options = {
        "workers": arguments.workers,
        "batch-size": arguments.batch_size or WORKLOADS[workload].batch_size,
        "epochs": arguments.epochs,
        **({"check": True} if arguments.check else {}),
    }
    return lines_of(output_of(name, workload, arguments.data, arguments.peer, options))


def machine() -> str:
    """Describe the machine."""
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


def measured(workload: str, names: list[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the rounds of a workload; return all results."""
    epochs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    versions: dict[str, str] = {}
    for number in range(arguments.rounds):
        for name in names:
            told = f"{workload}, round {number + 1}: {CONTENDERS[name].what}"
            print(told, file=sys.stderr, flush=True)
            said = run(name, workload, arguments)
            found = [line for line in said if "images_per_s" in line]
            assert len(found) == arguments.epochs, said
            epochs[name] += found[1:]
            for line in said:
                versions |= line.get("versions", {})
    versions.pop("Python", None)
    return {
        "workload": workload,
        "what": WORKLOADS[workload].what,
        "batch_size": arguments.batch_size or WORKLOADS[workload].batch_size,
        "workers": arguments.workers,
        "rounds": arguments.rounds,
        "machine": machine(),
        "versions": versions,
        "contenders": {name: CONTENDERS[name].what for name in names},
        "epochs": epochs,
    }


def checked(workload: str, names: list[str], arguments: argparse.Namespace) -> bool:
    """Compare the batches of all contenders with those of the first; print a line each."""
    names = [name for name in names if CONTENDERS[name].script != "plain_loops.py"]
    first, good = None, True
    for name in names:
        (found,) = (line for line in run(name, workload, arguments) if "means" in line)
        first = first or found
        faults = compare(first, found)
        good = good and not faults
        means = " ".join(f"{value:.4g}" for band in found["means"] for value in band)
        print(f"{workload} {name}: {'; '.join(faults) or 'as ' + names[0]} [{means}]", flush=True)
    return good


def peer(text: str) -> tuple[str, str]:
    """Parse NAME=PYTHON."""
    name, _, interpreter = text.partition("=")
    if name not in PEERS or not Path(interpreter).is_file():
        raise argparse.ArgumentTypeError(
            f"expected NAME=PYTHON with a NAME of {', '.join(PEERS)} and an interpreter's file, "
            f"got {text!r}"
        )
    return name, interpreter


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    parser.add_argument("--workload", choices=WORKLOADS, nargs="+", default=["w1"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=4, help="of a process; the first warms up")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, help="default: the workload's")
    parser.add_argument("--only", default=OURS, help="letters of our own contenders to run")
    parser.add_argument("--peer", type=peer, action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--check", action="store_true", help="compare batches, measure nothing")
    arguments = parser.parse_args()
    arguments.peer = dict(arguments.peer)
    good = True
    for workload in arguments.workload:
        names = chosen(workload, arguments.only, arguments.peer)
        if arguments.check:
            good = checked(workload, names, arguments) and good
            continue
        found = measured(workload, names, arguments)
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / f"{workload}.json").write_text(json.dumps(found, indent=1) + "\n")
        print(found["machine"], table(found), sep="\n\n", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
