"""Progress while a pipeline is built: where it is shown, when first, how often; turning it off."""

import io
import itertools
import logging
import sys
import threading
import types

import pytest

from stoker.client import Loader, progress
from stoker.client.progress import PipelineWait, is_shown
from stoker.protocol import messages as m
from stoker.protocol.errors import BuildError


class Terminal(io.StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def write_to(stream, monkeypatch):
    """Make it the standard error of the module; pytest has a stream of its own for each phase."""
    names = types.SimpleNamespace(stderr=stream, modules=sys.modules)
    monkeypatch.setattr(progress, "sys", names)
    return stream


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def plain(monkeypatch) -> io.StringIO:
    """Standard error as a file, without a configured logger."""
    monkeypatch.setattr(logging.root, "handlers", [])
    return write_to(io.StringIO(), monkeypatch)


@pytest.fixture
def terminal(monkeypatch) -> Terminal:
    return write_to(Terminal(), monkeypatch)


def wait(shown: PipelineWait, clock: Clock, seconds: float, total: int = 30) -> None:
    """Wait as a session does, for a build that ends a function each second."""
    end = clock.now + seconds
    while (left_s := shown.show()) and clock.now + left_s <= end:
        clock.now += left_s
        shown.note(int(clock.now - 100), total)
    clock.now = end


def test_a_wait_of_less_than_a_second_shows_nothing(terminal, clock) -> None:
    shown = PipelineWait(wanted=True, now=clock)
    wait(shown, clock, 0.9)
    shown.opened(stored=True)
    shown.close()
    assert terminal.getvalue() == ""


def test_a_terminal_has_one_line_that_is_rewritten(terminal, clock) -> None:
    shown = PipelineWait(wanted=True, now=clock)
    wait(shown, clock, 3.2)
    shown.opened(stored=True)
    shown.close()
    lines = terminal.getvalue().split("\r")
    assert lines[1].startswith("stoker: pipeline: compiling, 1 of 30 functions, 1 s")
    assert len(lines) == 1 + 5 + 1, "at 1.0, 1.5, 2.0, 2.5, 3.0 s, and the end"
    assert lines[-1] == "stoker: pipeline: ready after 3 s; later starts load it from the cache\n"
    assert all(len(now) >= len(before.rstrip()) for before, now in itertools.pairwise(lines)), (
        "no end of a longer line stays"
    )


def test_a_notebook_too(plain, clock, monkeypatch) -> None:
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    shown = PipelineWait(wanted=True, now=clock)
    wait(shown, clock, 1.0)
    shown.close()
    assert plain.getvalue() == "\rstoker: pipeline: compiling, 1 of 30 functions, 1 s\n"


def test_ipython_without_a_kernel_is_no_notebook(plain, clock, monkeypatch) -> None:
    shell = types.SimpleNamespace(kernel=None)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    shown = PipelineWait(wanted=True, now=clock)
    wait(shown, clock, 1.0)
    assert plain.getvalue() == "stoker: pipeline: compiling, 1 of 30 functions, 1 s\n"


def test_a_file_has_a_line_every_ten_seconds(plain, clock) -> None:
    shown = PipelineWait(wanted=True, now=clock)
    wait(shown, clock, 25.0)
    shown.opened(stored=False)
    shown.close()
    assert plain.getvalue().splitlines() == [
        "stoker: pipeline: compiling, 1 of 30 functions, 1 s",
        "stoker: pipeline: compiling, 11 of 30 functions, 11 s",
        "stoker: pipeline: compiling, 21 of 30 functions, 21 s",
        "stoker: pipeline: ready after 25 s",
    ]


def test_a_logger_that_takes_info_has_the_lines_instead(plain, clock, caplog) -> None:
    with caplog.at_level(logging.INFO, "stoker"):
        shown = PipelineWait(wanted=True, now=clock)
        wait(shown, clock, 2.0, total=0)
        shown.opened(stored=True)
    assert caplog.messages == [
        "pipeline: waiting until it is built, 1 s",
        "pipeline: ready after 2 s",
    ]
    assert plain.getvalue() == ""


@pytest.mark.parametrize("name", ["stoker", "stoker.client", "stoker.client.progress"])
def test_a_level_above_info_silences_it(name, caplog) -> None:
    assert is_shown()
    with caplog.at_level(logging.WARNING, name):
        assert not is_shown()
    with caplog.at_level(logging.INFO, name):
        assert is_shown()


def test_the_root_logger_does_not_silence_it() -> None:
    """Its level is WARNING in every program that says nothing about logging."""
    assert logging.root.level == logging.WARNING
    assert is_shown()


def test_unwanted_progress_is_not_shown(terminal, clock) -> None:
    shown = PipelineWait(wanted=False, now=clock)
    assert shown.show() == float("inf")
    shown.opened(stored=True)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("closed", [True, False])
def test_a_standard_error_that_cannot_be_written_changes_nothing(
    clock, closed, monkeypatch
) -> None:
    monkeypatch.setattr(logging.root, "handlers", [])
    stream = Terminal() if closed else None
    write_to(stream, monkeypatch)
    if stream is not None:
        stream.close()
    shown = PipelineWait(wanted=True, now=clock)
    wait(shown, clock, 2.0)
    shown.opened(stored=True)
    shown.close()


def test_a_loader_shows_what_the_daemon_says(daemon, terminal, monkeypatch) -> None:
    monkeypatch.setattr(progress, "FIRST_S", 0.0)

    def build(record: m.Open) -> None:
        assert terminal.written.wait(20)
        daemon._send(m.Building(record.request, 7, 13))

    daemon.answer_open = build
    with Loader(daemon.address, pipeline="train", batch_size=16, device="numpy"):
        pass
    (asked,) = daemon.of(m.Open)
    assert asked.delivery.progress
    lines = terminal.getvalue().split("\r")
    assert lines[1] == "stoker: pipeline: waiting until it is built, 0 s"
    assert lines[-1] == "stoker: pipeline: ready after 0 s; later starts load it from the cache\n"


def test_a_daemon_that_does_not_know_progress_is_waited_for_all_the_same(
    daemon, terminal, monkeypatch
) -> None:
    monkeypatch.setattr(progress, "FIRST_S", 0.0)
    daemon.answer_open = lambda record: terminal.written.wait(20) and None
    with Loader(daemon.address, pipeline="train", batch_size=16, device="numpy"):
        pass
    lines = terminal.getvalue().split("\r")
    assert lines[1] == "stoker: pipeline: waiting until it is built, 0 s"
    assert lines[-1].rstrip() == "stoker: pipeline: ready after 0 s"


def test_an_error_begins_on_a_line_of_its_own(daemon, terminal, monkeypatch) -> None:
    monkeypatch.setattr(progress, "FIRST_S", 0.0)

    def refuse(record: m.Open) -> list[m.Record]:
        assert terminal.written.wait(20)
        return [m.Error(record.request, "build", "it has no field 'mask'", {})]

    daemon.answer_open = refuse
    with pytest.raises(BuildError, match="it has no field 'mask'"):
        Loader(daemon.address, pipeline="train", batch_size=16, device="numpy")
    assert terminal.getvalue().endswith("\n")


def test_only_rank_0_asks(daemon) -> None:
    with Loader(
        daemon.address, pipeline="train", batch_size=16, rank=1, world_size=2, device="numpy"
    ):
        pass
    (asked,) = daemon.of(m.Open)
    assert not asked.delivery.progress


def test_who_silenced_it_does_not_ask(daemon, caplog) -> None:
    with (
        caplog.at_level(logging.WARNING, "stoker.client"),
        Loader(daemon.address, pipeline="train", batch_size=16, device="numpy"),
    ):
        pass
    (asked,) = daemon.of(m.Open)
    assert not asked.delivery.progress
