"""One run of a loader for an audit, in a process of its own.

    python -P -m stoker.client.audit.audited_run FILE RUN

RUN is an `AuditedRun` as JSON. Each batch becomes a line of FILE (`seen_batches`). The process is
new, so what the user's module makes when it is imported, such as a generator, is made again. If the
time is over it writes the stacks of its threads on standard error, and ends.
"""

import copy
import faulthandler
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from stoker.client.audit.loader_factory import LoaderFactory, in_words
from stoker.client.audit.seen_batches import RunLine, seen, written
from stoker.protocol.analysis import analyzed
from stoker.protocol.importing import add_folders


class AuditedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run and its options.

    Attributes:
        factory: `module:function`.
        arguments: for the function; those that it does not take are left out.
        batches: to read in each loop, at most.
        loops: over the same loader, one after the other.
        resume_at: a state is saved after that many batches, and loaded into a second loader, which
            delivers the rest; 0: none is.
        ids: name of the output that holds sample ids; None looks for one.
        python_path: folders that modules are imported from.
        timeout_s: for the whole run.
    """

    factory: str
    arguments: dict[str, int | None]
    batches: int
    loops: int = 1
    resume_at: int = 0
    ids: str | None = None
    python_path: list[str] = []
    timeout_s: float = 300.0


class NoStateError(Exception):
    """The loader has no state that can be saved."""


def main() -> int:
    """Run the loader; return the exit status."""
    run = msgspec.json.decode(sys.argv[2], type=analyzed(AuditedRun))
    faulthandler.dump_traceback_later(run.timeout_s, exit=True)
    add_folders(run.python_path)
    with open(sys.argv[1], "wb", buffering=0) as file:
        try:
            _follow(run, file)
        except NoStateError as error:
            _write(file, RunLine(missing=str(error)))
        except Exception as error:  # an error of the user's code is the finding
            _write(file, RunLine(failed=in_words(error)))
    return 0


def _write(file: BinaryIO, line: RunLine) -> None:
    file.write(written(line))


def _follow(run: AuditedRun, file: BinaryIO) -> None:
    factory = LoaderFactory(run.factory)
    _write(file, RunLine(takes=factory.takes, others=factory.others))
    loader = factory.make(run.arguments)
    if run.resume_at:
        loader, source = _resumed(factory, loader, run)
        _read(source, run.batches - run.resume_at, run, file, 0)
    else:
        for number in range(run.loops):
            _read(iter(loader), run.batches, run, file, number)
    _close(loader)


def _read(source: Iterator[Any], most: int, run: AuditedRun, file: BinaryIO, number: int) -> None:
    """Read a loop over a loader, and write what it delivers."""
    _write(file, RunLine(loop=number))
    for _ in range(most):
        for batch in source:
            _write(file, RunLine(batch=seen(batch, run.ids)))
            del batch  # a slot, or memory that the loader uses again
            break
        else:
            _write(file, RunLine(ended=True))
            return


def _resumed(factory: LoaderFactory, loader: Any, run: AuditedRun) -> tuple[Any, Iterator[Any]]:
    """Save the state of a loader in mid-epoch; return a second one that has loaded it, read on.

    Raises:
        NoStateError: neither loader nor iterator has a state.
    """
    source = iter(loader)
    on_loader = hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")
    if not on_loader and not (hasattr(source, "get_state") and hasattr(source, "set_state")):
        raise NoStateError(
            "the loader has no state_dict() and load_state_dict(), its iterator no get_state() and"
            " set_state()"
        )
    for _ in range(run.resume_at):
        next(source, None)
    state = copy.deepcopy(loader.state_dict() if on_loader else source.get_state())
    del source
    _close(loader)
    second = factory.make(run.arguments)
    if on_loader:
        second.load_state_dict(state)
        return second, iter(second)
    begun = iter(second)
    begun.set_state(state)
    return second, begun


def _close(loader: Any) -> None:
    if hasattr(loader, "close"):
        loader.close()


if __name__ == "__main__":
    sys.exit(main())
