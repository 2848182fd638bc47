"""Fuzz every target of tests/fuzz/targets.py with libFuzzer, guided by coverage (atheris).

    python tools/fuzz.py --runs 1000000                    (what .ci/run does)
    python tools/fuzz.py --runs 1000000 --store            (make fuzz)
    python tools/fuzz.py --runs 10000000 --store --jobs 2  (make fuzz FUZZ_RUNS=10000000)
    python tools/fuzz.py --targets graph spec --runs 100000

This process imports and instruments Stoker once, which takes some seconds, and is forked for each
target; so a target costs its inputs alone. A slow target (`SLOW`) gets 2 % of the runs, the others
share the rest. Each begins with its seeds and its stored inputs. An input that breaks a rule ends
its target: it is kept in `--crashes`, and the exit code is 1.

With `--store`, inputs that reach new lines are stored in tests/fuzz/corpus, the smallest ones, at
most `STORED` of a target; commit them. Coverage is that of Python code alone, not of msgspec, numpy
or OpenSSL.

Atheris has wheels for x86-64 Linux and the versions of Python in `PYTHONS`. Elsewhere nothing can
be fuzzed in this way: `--supported` says so, with exit code 1, and the tests of tests/fuzz are what
there is.
"""

import argparse
import contextlib
import io
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
HERE: Final = ROOT / "tests" / "fuzz"
PYTHONS: Final = ((3, 11), (3, 12), (3, 13))
MODULES: Final = [path.stem for path in HERE.glob("*targets.py")]
STORED: Final = 120
STORED_BYTES: Final = 4096
MAX_BYTES: Final = 8192
SLOW: Final = ("arrow_offsets", "certificate", "client_list", "manifest", "secret_file")
"""Targets whose inputs cost a millisecond or more; of 10^6 inputs each gets 20,000."""
SLOW_PART: Final = 0.02


class Outcome(NamedTuple):
    """The result of fuzzing a target."""

    runs: int
    coverage: int
    failure: str


class Job(NamedTuple):
    """A target that is being fuzzed by a child of this process."""

    name: str
    folder: Path
    since: float


def supported() -> str:
    """Return why atheris has no wheel for this interpreter; empty if it has one."""
    have = sys.platform, platform.machine(), sys.version_info[:2]
    libc = platform.libc_ver()[0]
    if have[:2] == ("linux", "x86_64") and libc == "glibc" and have[2] in PYTHONS:
        return ""
    versions = ", ".join(f"{major}.{minor}" for major, minor in PYTHONS)
    return (
        f"fuzzing is left out: atheris has wheels for x86-64 Linux (glibc) with Python {versions},"
        f" and this is {have[0]} on {have[1]} ({libc or 'another libc'}) with Python"
        f" {platform.python_version()}"
    )


def shares(names: list[str], runs: int) -> dict[str, int]:
    """Divide the runs among targets."""
    slow = [name for name in names if name in SLOW]
    if len(slow) == len(names):
        slow = []
    each_slow = min(int(runs * SLOW_PART), runs // len(names))
    rest = runs - each_slow * len(slow)
    each = -(-rest // (len(names) - len(slow)))
    return {name: each_slow if name in slow else each for name in names}


def prepare() -> dict[str, Callable[[bytes], bool]]:
    """Import the targets with instrumented code."""
    import atheris  # noqa: PLC0415 - only where it is installed

    os.environ["NUMBA_DISABLE_JIT"] = "1"  # numba cannot read instrumented code
    find_modules()
    with (
        contextlib.redirect_stderr(io.StringIO()),  # it names each module
        atheris.instrument_imports(include=["stoker", *MODULES], enable_loader_override=False),
    ):
        import targets  # noqa: PLC0415
    return targets.TARGETS


def find_modules() -> None:
    """Let this process import the targets, their seeds, and what tests share."""
    sys.path[:0] = [str(HERE), str(ROOT / "tests" / "support")]


def start(name: str, target: Callable[[bytes], bool], runs: int, job: Job, crashes: Path) -> int:
    """Fork a child that fuzzes a target; return its process id."""
    found = job.folder / "found"
    found.mkdir(parents=True)
    for number, data in enumerate(inputs(name)):
        Path(found, str(number)).write_bytes(data)
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    log = os.open(job.folder / "log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    tempfile.tempdir = str(job.folder)  # libFuzzer ends without cleaning up
    import atheris  # noqa: PLC0415

    limits = [f"-runs={runs}", f"-max_len={MAX_BYTES}", "-rss_limit_mb=4096", "-timeout=20"]
    prefix = f"-artifact_prefix={crashes}/{name}-"
    atheris.Setup([sys.argv[0], *limits, prefix, str(found)], target)
    atheris.Fuzz()
    os._exit(0)


def inputs(name: str) -> list[bytes]:
    """Return the seeds and the stored inputs of a target."""
    import msgpack  # noqa: PLC0415 - after the instrumented imports
    import seeds  # noqa: PLC0415

    stored = HERE / "corpus" / f"{name}.msgpack"
    known = msgpack.unpackb(stored.read_bytes()) if stored.exists() else []
    return [*getattr(seeds, name)(), *known]


def store(name: str, target: Callable[[bytes], bool], folder: Path) -> int:
    """Store the smallest inputs that reach all lines; return how many."""
    import msgpack  # noqa: PLC0415

    found = sorted({path.read_bytes() for path in folder.iterdir()}, key=lambda d: (len(d), d))
    seen: set[object] = set()
    kept = []
    target(found[0])  # what it prepares once is of no input
    for data in found:
        if len(data) <= STORED_BYTES and len(kept) < STORED:
            reached = lines(target, data)
            if reached - seen:
                kept.append(data)
                seen |= reached
    stored = HERE / "corpus" / f"{name}.msgpack"
    stored.parent.mkdir(exist_ok=True)
    stored.write_bytes(msgpack.packb(kept))
    return len(kept)


def lines(target: Callable[[bytes], bool], data: bytes) -> set[object]:
    """Return the steps from line to line of Stoker's code that an input takes."""
    reached: set[object] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if "/stoker/" not in code.co_filename and not code.co_filename.endswith("targets.py"):
            return None
        last = 0

        def step(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal last
            reached.add((code, last, frame.f_lineno, event == "exception"))
            last = frame.f_lineno
            return step

        return step

    sys.settrace(trace)
    try:
        target(data)
    finally:
        sys.settrace(None)
    return reached


def outcome(job: Job, status: int) -> Outcome:
    """Read what a child said."""
    text = (job.folder / "log").read_text(errors="replace")
    ran = [int(number) for number in re.findall(r"#(\d+)\s", text)]
    coverage = [int(number) for number in re.findall(r"cov: (\d+)", text)]
    said = "\n".join(line for line in text.splitlines() if "Instrumenting" not in line)
    return Outcome(max(ran, default=0), max(coverage, default=0), said[-3000:] if status else "")


def run(asked: argparse.Namespace, root: Path) -> int:
    """Fuzz the targets that are asked for; return how many failed."""
    began = time.monotonic()
    known = prepare()
    names = sorted(asked.targets or known, key=lambda name: (name not in SLOW, name))
    runs = shares(names, asked.runs)
    print(f"{len(names)} targets, imported in {time.monotonic() - began:.0f} s", flush=True)
    print("| target | inputs | inputs/s | coverage | stored |\n|---|---|---|---|---|", flush=True)
    jobs: dict[int, Job] = {}
    failed = total = 0
    while names or jobs:
        while names and len(jobs) < asked.jobs:
            name = names.pop(0)
            job = Job(name, root / name, time.monotonic())
            jobs[start(name, known[name], runs[name], job, asked.crashes)] = job
        pid, status = os.wait()
        job = jobs.pop(pid)
        got = outcome(job, status)
        stored: int | str = ""
        if asked.store and not got.failure:
            stored = store(job.name, known[job.name], job.folder / "found")
        total += got.runs
        rate = got.runs / (time.monotonic() - job.since)
        print(
            f"| {job.name} | {got.runs:,} | {rate:,.0f} | {got.coverage} | {stored} |", flush=True
        )
        if got.failure:
            failed += 1
            print(f"{job.name} FAILED; its input is in {asked.crashes}\n{got.failure}", flush=True)
    print(f"{total:,} inputs in {time.monotonic() - began:.0f} s")
    return failed


def main() -> None:
    """Fuzz the targets that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--supported", action="store_true", help="say whether atheris can be used")
    parser.add_argument("--runs", type=int, default=1_000_000, help="inputs, over all targets")
    parser.add_argument("--jobs", type=int, default=2, help="targets at a time")
    parser.add_argument("--targets", nargs="*", help="their names; all by default")
    parser.add_argument("--store", action="store_true", help="store what was found")
    parser.add_argument("--crashes", type=Path, default=ROOT / "fuzz-crashes")
    asked = parser.parse_args()
    missing = supported()
    if missing or asked.supported:
        print(missing or "fuzzing: atheris has a wheel for this interpreter")
        sys.exit(bool(missing) and asked.supported)
    asked.crashes.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="stoker-fuzz-runs-") as folder:
        failed = run(asked, Path(folder))
    if not failed and not any(asked.crashes.iterdir()):
        asked.crashes.rmdir()
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
