"""Fuzz every target of tests/fuzz/targets.py with libFuzzer, guided by coverage (atheris).

    python tools/fuzz.py --runs 1000000            (make fuzz)
    python tools/fuzz.py --runs 10000000 --jobs 2  (make fuzz FUZZ_RUNS=10000000)
    python tools/fuzz.py --targets graph spec --runs 100000

The runs are divided among the targets. Each runs in a process of its own, from its seeds and its
stored inputs. Inputs that reach new code are stored in tests/fuzz/corpus, the smallest ones, at
most `STORED` of a target; commit them. An input that breaks a rule ends its target: it is kept in
`--crashes`, and the exit code is 1. Coverage is that of Python code alone, not of msgspec or numpy.
"""

import argparse
import concurrent.futures
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

import msgpack

ROOT: Final = Path(__file__).parents[1]
HERE: Final = ROOT / "tests" / "fuzz"
STORED: Final = 120
STORED_BYTES: Final = 4096
MAX_BYTES: Final = 8192
KERNELS: Final = ["stoker.dataset.images.jpeg", "stoker.ops", "stoker.rng", "stoker.jit"]
"""Packages that numba compiles, which cannot read instrumented code."""


class Outcome(NamedTuple):
    """What fuzzing a target gave."""

    name: str
    runs: int
    seconds: float
    coverage: int
    stored: int
    failure: str


def child(name: str, arguments: list[str]) -> None:
    """Run one target; does not return."""
    import atheris  # noqa: PLC0415 - only here

    sys.path.insert(0, str(HERE))
    with atheris.instrument_imports(
        include=["stoker", "targets"], exclude=KERNELS, enable_loader_override=False
    ):
        import targets  # noqa: PLC0415
    target = targets.TARGETS[name]
    again = f"{sys.executable} {__file__} --child {name} --"  # libFuzzer runs itself to merge
    atheris.Setup([again, *arguments], target)
    atheris.Fuzz()


def fuzz(name: str, runs: int, crashes: Path) -> Outcome:
    """Fuzz a target in a process of its own, and store what it found."""
    import seeds  # noqa: PLC0415 - beside the targets

    stored = HERE / "corpus" / f"{name}.msgpack"
    known = msgpack.unpackb(stored.read_bytes()) if stored.exists() else []
    with tempfile.TemporaryDirectory() as folder:
        found, merged = Path(folder, "found"), Path(folder, "merged")
        for path in (found, merged):
            path.mkdir()
        for number, data in enumerate([*getattr(seeds, name)(), *known]):
            Path(found, str(number)).write_bytes(data)
        common = [sys.executable, __file__, "--child", name, "--"]
        prefix = f"-artifact_prefix={crashes}/{name}-"
        began = time.monotonic()
        limits = [f"-runs={runs}", f"-max_len={MAX_BYTES}", "-rss_limit_mb=4096", "-timeout=20"]
        done = subprocess.run(
            [*common, *limits, prefix, str(found)], capture_output=True, text=True, check=False
        )
        seconds = time.monotonic() - began
        text = done.stdout + done.stderr
        if done.returncode:
            return Outcome(name, 0, seconds, 0, len(known), text[-3000:])
        subprocess.run(
            [*common, "-merge=1", f"-max_len={MAX_BYTES}", str(merged), str(found)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        kept = sorted((path.read_bytes() for path in merged.iterdir()), key=lambda d: (len(d), d))
    kept = [data for data in kept if len(data) <= STORED_BYTES][:STORED]
    stored.parent.mkdir(exist_ok=True)
    stored.write_bytes(msgpack.packb(kept))
    coverage = [int(number) for number in re.findall(r"cov: (\d+)", text)]
    ran = [int(number) for number in re.findall(r"#(\d+)\s", text)]
    return Outcome(name, max(ran, default=0), seconds, max(coverage, default=0), len(kept), "")


def main() -> None:
    """Fuzz the targets that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1_000_000, help="inputs, over all targets")
    parser.add_argument("--jobs", type=int, default=2, help="targets at a time")
    parser.add_argument("--targets", nargs="*", help="their names; all by default")
    parser.add_argument("--crashes", type=Path, default=ROOT / "fuzz-crashes")
    asked = parser.parse_args()
    sys.path.insert(0, str(HERE))
    import targets  # noqa: PLC0415

    names = asked.targets or sorted(targets.TARGETS)
    asked.crashes.mkdir(exist_ok=True)
    each = -(-asked.runs // len(names))
    print("| target | inputs | inputs/s | coverage | stored |\n|---|---|---|---|---|")
    failed = total = 0
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        for one in pool.map(lambda name: fuzz(name, each, asked.crashes), names):
            rate = one.runs / one.seconds
            total += one.runs
            print(
                f"| {one.name} | {one.runs:,} | {rate:,.0f} | {one.coverage} | {one.stored} |",
                flush=True,
            )
            if one.failure:
                failed += 1
                print(f"{one.name} FAILED; its input is in {asked.crashes}\n{one.failure}")
    print(f"{total:,} inputs")
    if not failed and not any(asked.crashes.iterdir()):
        asked.crashes.rmdir()
    sys.exit(bool(failed))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[4:])
    else:
        main()
