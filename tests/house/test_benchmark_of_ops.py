"""The benchmark of the ops compares like with like, and divides the right numbers."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

RANDOM = {"gaussian_noise", "salt_and_pepper", "elastic", "grid_distortion"}
"""Ops whose peers draw numbers of their own."""


@pytest.fixture
def benchmark(root: Path, monkeypatch: pytest.MonkeyPatch):
    """Import a module of the benchmark, which finds its neighbors as a script does."""
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if name.startswith(("ops", "interleave")):
            del sys.modules[name]


def pixels(found) -> np.ndarray:
    """Return what a library made, as an array of our layout."""
    if hasattr(found, "permute"):
        found = found.permute(1, 2, 0)
    return np.asarray(found)


@pytest.mark.parametrize("floats", [False, True], ids=["levels", "floats"])
def test_peers_do_what_the_op_does(benchmark, floats):
    """Within five levels on the average: borders, roundings and filters differ, the work not."""
    cases, subject = benchmark("ops_cases"), benchmark("ops_subject")
    pictures = {size: subject.Subject(*size) for size in cases.BOTH}
    for case in benchmark("ops_floats").float_cases() if floats else cases.all_cases():
        picture = pictures[case.sizes[-1]]
        contenders = case.contenders(picture)
        expected = contenders.pop("Stoker").plain()
        if case.parameters.get("dtype") == "float16":
            expected = expected.view(np.float16)
        scale = 1 if expected.dtype == np.uint8 else float(np.abs(expected).max()) / 255
        assert contenders
        for name, call in contenders.items():
            found = pixels(call())
            if name.endswith(subject.LESS) or case.op in RANDOM:
                continue
            assert found.shape == expected.shape, (case.op, case.note, name)
            apart = np.abs(found.astype(np.float64) - expected).mean() / scale
            assert apart < 5, (case.op, case.note, name, apart)


def test_ours_is_the_machine_code_of_the_op(benchmark):
    """Images and masks, with parameters and a record."""
    cases, subject = benchmark("ops_cases"), benchmark("ops_subject")
    picture = subject.Subject(*cases.PHOTO)
    for case in (*cases.moves(), *cases.masks()):
        if case.op in ("random_crop", "horizontal_flip"):
            ours = case.contenders(picture)["Stoker"]
            expected = ours.plain().copy()
            ours.result[...] = 0
            ours()
            assert np.array_equal(ours.result, expected), (case.op, case.note)


def test_our_time_is_compared_with_the_fastest_that_does_the_same(benchmark):
    times = {"Pillow": 3e-5, "OpenCV": 2e-5, "OpenCV area*": 1e-6}
    assert benchmark("ops").fastest(1e-5, times) == (0.5, "OpenCV")


def test_contenders_take_turns_and_the_least_time_counts(benchmark, monkeypatch):
    interleave = benchmark("interleave")
    clock, order = [0.0], []
    cost = {"a": iter([5.0] * 4 + [3.0, 4.0, 9.0]), "b": iter([2.0] * 4 + [1.0, 7.0, 7.0])}
    monkeypatch.setattr(interleave.time, "perf_counter", lambda: clock[0])

    def contender(name):
        def call():
            order.append(name)
            clock[0] += next(cost[name])

        return call

    found = interleave.least_times({name: contender(name) for name in cost}, rounds=3)
    assert found == {"a": 3.0, "b": 1.0}
    assert order[-6:] == ["a", "b"] * 3


def test_peers_of_batch_ops_do_what_they_do(benchmark):
    """Within a level of 255: roundings differ, the work not."""
    for name, contenders in benchmark("ops_batch").cases().items():
        expected = np.array(contenders.pop("Stoker")(), np.float64)
        scale = 1 if "uint8" in name else 1 / 255
        assert contenders
        for peer, call in contenders.items():
            assert np.abs(np.asarray(call(), np.float64) - expected).max() <= scale, (name, peer)
