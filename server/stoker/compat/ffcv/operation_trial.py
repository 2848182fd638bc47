"""The trial of an operation on arrays, when the loader is built.

It runs on noise, and on rows of the dataset if it does not take the noise, as a table of classes
does. A helper that the user has compiled does not check its indices, so an operation that calls one
runs on rows of the dataset alone. The plain Python form runs first (machine code that writes beyond
an array would not report it) and the compiled form after it. Only the compiled form decides on
integer arithmetic, where Python and NumPy refuse more. A batch op gets an even number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any, Final, Protocol

import numpy as np

from stoker.compat.ffcv.batch_need import MixesRows, needs_batch
from stoker.compat.ffcv.batch_rows import BatchRows, Sample
from stoker.compat.ffcv.pipeline.allocation_query import AllocationQuery
from stoker.compat.ffcv.pipeline.compiler import Compiler
from stoker.compat.ffcv.pipeline.state import State
from stoker.compat.ffcv.rewriting import RewrittenFunction
from stoker.compat.ffcv.row_loop import OTHER_FORM
from stoker.compat.ffcv.working_memory import WorkingMemory
from stoker.ops.custom.foreign import generator, noise
from stoker.pipeline.compiled.diagnose import reason
from stoker.protocol.errors import BuildError, StokerError
from stoker.rng.streams import make_key

TRIAL_ROWS: Final = 3
EVEN_ROWS: Final = 4
"""Rows of the trial of a batch op."""
FILLED: Final = 8
"""Epochs in which the memory is filled with other numbers: results must not depend on them."""
OF_VALUES: Final = (
    IndexError, KeyError, ValueError, ZeroDivisionError, AssertionError, OverflowError
)  # fmt: skip
"""Errors of values that no sample of the dataset may have: class numbers, or ids beyond its end."""


class RowsOfStep(Protocol):
    """The part of a step that decides about its rows; see `compiled_step.CompiledStep`."""

    name: str
    code: RewrittenFunction
    is_declared: bool
    gets_one_row: bool


class Tried(RowsOfStep, Protocol):
    """The part of a step that says what values it takes."""

    before: State


class TriedStep(Tried, Protocol):
    """The step of a trial; see `stoker.compat.ffcv.compiled_step.CompiledStep`."""

    after: State
    queries: tuple[AllocationQuery, ...]
    plain: FunctionType
    memory: WorkingMemory
    is_batch_op: bool

    def run(self, batch: np.ndarray, keys: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Return the result for some rows."""
        ...

    def trial_keys(self, rows: BatchRows) -> np.ndarray:
        """Return the keys of rows."""
        ...

    def take(self, after: State) -> None:
        """Take the state of its results."""
        ...

    def one(self, batch: np.ndarray, keys: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Return the result for one row as the function returns it."""
        ...

    def interpret(self, *, tried: bool = False) -> None:
        """Run as Python from now on; if it is tried, its compiled helpers too."""
        ...

    def compile(self, *, checked: bool = False) -> None:
        """Run as machine code from now on."""
        ...


def try_step(step: TriedStep, sample: Sample | None) -> None:
    """Try a step that has a compiled form; see `try_on_values`."""
    try_on_values(step, sample, lambda value, ids: _Trial(step, value, ids).check())


def try_on_values(
    step: Tried, sample: Sample | None, attempt: Callable[[np.ndarray, np.ndarray], None]
) -> None:
    """Try a step on noise, and if that has values that it cannot take, on rows of the dataset.

    Args:
        step: the step.
        sample: rows of the dataset, if there is one.
        attempt: tries the step on values, for rows with these ids.

    Raises:
        MixesRows: it needs all rows of a batch, and does not say whether it is a batch op.
        BuildError: it cannot run, mixes rows although it says that it does not, or may mix them.
    """
    if sample is None or not step.code.calls_machine_code:
        ids = np.arange(100, 100 + 2 * TRIAL_ROWS) if sample is None else sample.ids
        rng = generator(make_key(1, 2, 3, 4))
        value = noise((len(ids), *step.before.shape), step.before.dtype, rng)
        try:
            attempt(value, ids)
        except MixesRows:
            raise
        except BuildError as error:
            if sample is None or not isinstance(error.__cause__, OF_VALUES):
                raise
        else:
            return
    attempt(sample.values(), sample.ids)


class _Trial:
    """One trial: values and ids of some rows."""

    def __init__(self, step: TriedStep, value: np.ndarray, ids: np.ndarray) -> None:
        self._step = step
        self._value = value
        self._rows = BatchRows(5, 6, ids)
        self._some = range(EVEN_ROWS if step.is_batch_op else TRIAL_ROWS)

    def check(self) -> None:
        """Try it; one that fails on some rows may need all of them."""
        if self._step.is_batch_op:
            return self._check()
        if self._step.code.by_row and self._needs_batch():
            raise self._mixing()
        try:
            self._check()
        except MixesRows:
            raise
        except BuildError:
            if not self._step.code.by_row and self._needs_batch():
                raise self._mixing() from None
            raise
        return check_reads(self._step)

    def _needs_batch(self) -> bool:
        step = self._step
        deep = not step.code.reads.is_certain
        return needs_batch(step.plain, self._value, self._rows.ids, step.memory, deep=deep)

    def _check(self) -> None:
        """Try it; results of another form than declared are taken as they are, as FFCV does."""
        try:
            self._check_form()
        except BuildError as error:
            if not _is_other_form(error.__cause__):
                raise
            step, some = self._step, self._rows._replace(ids=self._rows.ids[:1])
            result = step.one(self._value[:1], step.trial_keys(some), some.ids)
            self._take(result, 1)
            self._check_form()

    def _check_form(self) -> None:
        step = self._step
        step.interpret(tried=True)
        if not Compiler.is_enabled():
            with _quiet():
                self._check_result(self._run(self._some))
            step.interpret()
        else:
            self._in_python()
            step.compile()
        first = self._run(self._some)
        self._check_result(first)
        self._check_memory()
        first, again = self._run(self._some), self._run(self._some)
        if again.tobytes() != first.tobytes():
            raise BuildError(
                f"{step.name} cannot be used: it returned two results for the same rows, so it "
                "keeps state between calls, or draws from something other than np.random"
            )
        if not step.is_batch_op:
            self._check_mixing(first)

    def _check_mixing(self, first: np.ndarray) -> None:
        for others in ([TRIAL_ROWS + 1, 0], [0, TRIAL_ROWS, 2, 1]):
            among = self._run(others)
            if among[others.index(0)].tobytes() != first[0].tobytes():
                raise self._mixing()

    def _mixing(self) -> BuildError:
        return mixing_error(self._step.name, is_declared=self._step.is_declared)

    def _check_memory(self) -> None:
        """Zero the memory for each batch if results depend on what is in it."""
        memory = self._step.memory
        for epoch in range(FILLED):
            found = set()
            for fill in (0, 1):
                memory.fill = fill
                found.add(self._run(self._some, epoch).tobytes())
            memory.fill = None
            if len(found) > 1:
                memory.is_cleared = True
                return

    def _in_python(self) -> None:
        """Find faults that machine code would not report.

        Python refuses integer arithmetic that machine code wraps, and NumPy gives it other dtypes.
        So its results do not count, and after such an error machine code that checks each index
        runs instead.
        """
        try:
            with _quiet():
                self._run(self._some)
        except BuildError as error:
            if not isinstance(error.__cause__, OverflowError | TypeError):
                raise
            self._step.compile(checked=True)
            self._run(self._some)

    def _run(self, places: Sequence[int], epoch: int = 6) -> np.ndarray:
        """Run it on some rows of the trial."""
        step, chosen = self._step, np.array(places)
        rows = self._rows._replace(ids=self._rows.ids[chosen], epoch=epoch)
        try:
            return step.run(self._value[chosen], step.trial_keys(rows), rows.ids)
        except StokerError:
            raise
        except (Exception, SystemExit) as error:  # the user's function may raise anything
            raise BuildError(
                f"{user_line(error, step.code.function.__code__)}{step.name} fails on "
                f"{step.before}: {type(error).__name__}: {reason(error)}. It declared "
                f"{step.after}{self._memory()}{self._advice(error)}"
            ) from error

    def _memory(self) -> str:
        shapes = ", ".join(str(query.shape) for query in self._step.queries)
        return f" and requested memory of shape {shapes}" if shapes else ""

    def _advice(self, error: BaseException) -> str:
        if len(self._step.before.shape) < 2 or not isinstance(error, IndexError | ValueError):
            return ""
        return (
            ". Check that the sides of its input and its output agree, also for odd sizes: -n // 2 "
            "is -(n // 2) - 1 if n is odd"
        )

    def _check_result(self, result: Any) -> None:
        after = self._step.after
        found = getattr(result, "shape", None), getattr(result, "dtype", None)
        if found != ((len(self._some), *after.shape), np.dtype(after.dtype)):
            self._take(result, len(self._some))

    def _take(self, result: Any, count: int) -> None:
        self._step.take(state_of(result, count, self._step.after, self._step.name))


def state_of(result: Any, count: int, after: State, name: str) -> State:
    """Return the state of an operation's results, which differ from what it declares.

    FFCV passes on the result of a function, also if its class declares another.

    Args:
        result: what the function returned for some rows.
        count: the number of the rows.
        after: what the operation declares.
        name: field and operation.

    Raises:
        BuildError: it is not an array of numbers with one item for each row.
    """
    if not isinstance(result, np.ndarray) or result.dtype.kind not in "biufc":
        what = f"an array of {result.dtype}" if isinstance(result, np.ndarray) else type(result)
        raise BuildError(
            f"{name} returned {getattr(what, '__name__', what)}, but it declared {after}: return "
            "an array of numbers"
        )
    if result.shape[:1] != (count,):
        raise BuildError(
            f"{name} returned an array of shape {result.shape} for {count} rows, but it declared "
            f"{after}: return one item for each row"
        )
    return replace(after, shape=result.shape[1:], dtype=result.dtype)


def _is_other_form(cause: BaseException | None) -> bool:
    return isinstance(cause, TypeError) and cause.args == (OTHER_FORM,)


def mixing_error(name: str, *, is_declared: bool) -> BuildError:
    """Return the error of an operation that needs all rows of a batch, but does not get them.

    Args:
        name: field and operation.
        is_declared: whether it says so itself; otherwise it is prepared again as one.
    """
    made = BuildError if is_declared else MixesRows
    return made(
        f"{name} cannot be used: its result for a row depends on the other rows of the batch, but "
        "its class has is_batch_op = False. Read only row i for row i; or remove is_batch_op"
    )


def no_batch(name: str) -> BuildError:
    """Return the error of an operation that needs a batch, where it gets one row at a time."""
    return BuildError(
        f"{name} mixes the rows of a batch, but in a pipeline it would get one row at a time; use "
        "a batch op of stoker.ops instead"
    )


def check_reads(step: RowsOfStep) -> None:
    """Check the source of an operation that gets one row at a time, after trials found no mixing.

    Raises:
        BuildError: it may read other rows, and does not say whether it does.
    """
    reads = step.code.reads
    if reads.other and not step.is_declared and (step.code.by_row or step.gets_one_row):
        file = step.code.function.__code__.co_filename
        raise BuildError(
            f"{file}:{reads.line}: {step.name} may mix rows: {reads.other} reads another row than "
            "the one that is written, but no result of the trial depended on that. Set is_batch_op "
            "= True on its class if it mixes rows, or False if it does not",
            file=file,
            line=reads.line,
        )


def user_line(error: BaseException, code: CodeType) -> str:
    """Return "file:line: " of an error in a function; "" if it is elsewhere."""
    trace, found = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code is code:
            found = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}: "
        trace = trace.tb_next
    return found


def _quiet() -> Any:
    """Silence NumPy's warnings: machine code wraps and divides without any."""
    return np.errstate(all="ignore")
