"""Reports of a process while it compiles."""

import signal

import pytest

from stoker.jit import activity, cache_root, compiled, kernel, set_cache_root


@kernel
def _twice(value):
    return value * 2


@pytest.fixture
def reports():
    """The reports of this process."""
    found: list[bool] = []
    activity.listen(found.append)
    yield found
    activity.listen(None)


@pytest.fixture
def empty_cache(tmp_path):
    before = cache_root()
    set_cache_root(tmp_path)
    yield
    set_cache_root(before)


def test_compiling_is_reported_from_its_beginning_to_its_end(reports, empty_cache):
    handler = signal.getsignal(signal.SIGALRM)
    assert compiled(_twice)(4) == 8
    assert reports == [True, False]
    assert signal.getsignal(signal.SIGALRM) is handler
    assert compiled(_twice)(4) == 8
    assert reports == [True, False]


def test_a_process_that_compiles_for_long_reports_it_again_and_again(reports, monkeypatch):
    monkeypatch.setattr(activity, "BEAT_S", 0.01)
    activity.begin_compiling()
    activity.begin_compiling()
    while len(reports) < 4:
        signal.sigtimedwait([], 0.01)
    activity.end_compiling()
    activity.progressed()
    assert reports[-1]
    activity.end_compiling()
    assert not reports[-1]
    assert all(reports[:-1])
    count = len(reports)
    activity.progressed()
    assert reports[count:] == [False]


def test_functions_count_once_and_are_done_once(monkeypatch):
    monkeypatch.setattr(activity, "_functions", {})
    assert activity.count() == (0, 0)
    activity.expect(["loop", ("flip", "uint8")])
    activity.finished("loop")
    activity.finished("loop")
    activity.expect(["loop", ("flip", "float32")])
    assert activity.count() == (1, 3)
    activity.finished(("flip", "uint8"))
    activity.finished(("flip", "float32"))
    assert activity.count() == (3, 3)


def test_without_a_listener_nothing_is_reported():
    handler = signal.getsignal(signal.SIGALRM)
    activity.begin_compiling()
    assert signal.getsignal(signal.SIGALRM) is handler
    activity.end_compiling()
    activity.progressed()
