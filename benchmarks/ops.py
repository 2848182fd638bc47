"""Every op against OpenCV, Pillow, NumPy, and torchvision and Albumentations if installed.

    python benchmarks/ops.py [--rounds 200] [--only resize,pad] [--floats]

All contenders get the same image, run on one thread and are called from Python. Results go to
preallocated memory if the library allows it. Contenders alternate and the least time counts
(`interleave.py`). Prints Markdown: microseconds, and Stoker's time over that of the fastest peer
that does the same work. A peer marked * does other or less work and is not compared.
"""

import argparse
import sys

from interleave import least_times
from ops_cases import Case, all_cases
from ops_floats import float_cases
from ops_subject import LESS, Subject, one_thread

from stoker.ops import registered

LIMIT = 1.5
"""Target for all ops: at most this many times the fastest peer's time."""


def line(case: Case, subject: Subject, rounds: int) -> tuple[str, float]:
    """Measure a case; return its line of the table, and Stoker's time over the fastest peer's."""
    times = least_times(case.contenders(subject), rounds)
    ours = times.pop("Stoker")
    ratio, best = fastest(ours, times)
    others = ", ".join(f"{name} {1e6 * t:.1f}" for name, t in sorted(times.items(), key=by_time))
    size = f"{subject.size[1]}x{subject.size[0]}"
    what = f"{case.op} ({case.note})" if case.note else case.op
    return f"| {what} | {size} | {1e6 * ours:.1f} | {others} | {ratio:.2f} ({best}) |", ratio


def by_time(entry: tuple[str, float]) -> float:
    """Sort contenders by their time."""
    return entry[1]


def fastest(ours: float, times: dict[str, float]) -> tuple[float, str]:
    """Return Stoker's time over that of the fastest comparable peer, and the peer's name."""
    same = {name: t for name, t in times.items() if not name.endswith(LESS)}
    best = min(same, key=same.__getitem__)
    return ours / same[best], best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--only", help="names of ops, separated by commas")
    parser.add_argument("--floats", action="store_true", help="images of float32")
    arguments = parser.parse_args()
    one_thread()
    wanted = set(arguments.only.split(",")) if arguments.only else None
    offered = float_cases() if arguments.floats else all_cases()
    cases = [case for case in offered if wanted is None or case.op in wanted]
    subjects = {size: Subject(*size) for case in cases for size in case.sizes}
    print("| op | picture | Stoker, us | peers, us | ours / fastest peer |\n|---|---|---|---|---|")
    slow = []
    for case in cases:
        for size in case.sizes:
            text, ratio = line(case, subjects[size], arguments.rounds)
            print(text, flush=True)
            if ratio > LIMIT:
                slow.append(f"{case.op} {case.note}".strip())
    missing = sorted(set(registered()) - {case.op for case in offered})
    print(f"\nSlower than {LIMIT} times the fastest peer: {', '.join(slow) or 'none'}.")
    print(f"Without a peer: {', '.join(missing) or 'none'}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
