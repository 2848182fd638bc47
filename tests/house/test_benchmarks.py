"""The benchmark's own arithmetic: what is dropped, what is divided by what, what is counted."""

import importlib.util
import math
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def beside(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmarks import each other, as scripts do."""
    monkeypatch.syspath_prepend(str(root / "benchmarks"))


def module(root: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"benchmark_{name}", root / f"benchmarks/{name}.py"
    )
    assert spec
    assert spec.loader
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


def epoch(rate: float, other: float = 0.0) -> dict[str, float]:
    return {
        "images": 1000.0,
        "seconds": 1000 / rate,
        "images_per_s": rate,
        "first_batch_s": 0.1,
        "cpu_s": 2000 / rate,
        "other_cpu_s": other,
    }


def test_ratios_are_those_of_the_medians(root: Path) -> None:
    throughput = module(root, "throughput")
    results = {
        "a": [epoch(1000), epoch(1200), epoch(1100)],
        "b": [epoch(550), epoch(500), epoch(600)],
        "d": [epoch(1100)],
    }
    lines = throughput.report(results).splitlines()
    assert lines[2] == "| a | Stoker, daemon and client | 1,100 (1,000..1,200) | 3 | 0 | 550 |"
    assert lines[-2:] == ["| a/b | 2.000 | 2.000 |", "| a/d | 1.000 | 1.000 |"]


def test_noisy_epochs_are_dropped_and_counted(root: Path) -> None:
    throughput = module(root, "throughput")
    noisy = epoch(100, other=throughput.NOISE * 10 + 0.01)
    still_quiet = epoch(100, other=throughput.NOISE * 10 - 0.01)
    assert throughput.quiet([noisy, still_quiet]) == [still_quiet]
    assert "| 100 (100..100) | 1 | 1 |" in throughput.report({"b": [noisy, still_quiet]})
    assert "| 1 | all noisy, all kept |" in throughput.report({"b": [noisy]})


def test_an_epoch_is_measured_up_to_its_last_batch(root: Path) -> None:
    meter = module(root, "meter")
    found = meter.measure(lambda: iter([np.ones((4, 2, 2, 3), np.uint8)] * 3))
    assert found.images == 12
    assert 0 < found.first_batch_s <= found.seconds
    assert math.isclose(found.images_per_s, 12 / found.seconds)


def test_the_processor_time_of_children_is_counted(root: Path) -> None:
    meter = module(root, "meter")
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    before = meter.tree_s(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout
        child.stdout.readline()
        living = meter.tree_s(os.getpid()) - before
        child.communicate(b"\n")
    reaped = meter.tree_s(os.getpid()) - before
    assert living >= 0.25
    assert reaped >= living - 0.02


@pytest.mark.slow
def test_the_data_are_the_same_bytes_each_time(root: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        command = [sys.executable, str(root / "benchmarks/make_data.py"), str(tmp_path / name)]
        subprocess.run([*command, "--count", "16"], check=True, capture_output=True)
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*.jpg"))
    assert len(files) == 16
    assert all(
        (tmp_path / "one" / f).read_bytes() == (tmp_path / "two" / f).read_bytes() for f in files
    )
    sizes = [(tmp_path / "one" / f).stat().st_size for f in files]
    assert 60_000 < np.mean(sizes) < 140_000
