"""The trial of an operation on arrays, when the loader is built.

It runs on noise, and on rows of the dataset if it does not take the noise, as a table of classes
does. A helper that the user has compiled does not check its indices, so an operation that calls one
runs on rows of the dataset alone. The plain Python form runs first (machine code that writes beyond
an array would not report it) and the compiled form after it. Only the compiled form decides on
integer arithmetic, where Python and NumPy refuse more. A batch op gets an even number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType, FunctionType
from typing import Any, Final, Protocol

import numpy as np

from stoker.compat.ffcv.mixing import mixes
from stoker.compat.ffcv.pipeline.allocation_query import AllocationQuery
from stoker.compat.ffcv.pipeline.compiler import Compiler
from stoker.compat.ffcv.pipeline.state import State
from stoker.compat.ffcv.rewriting import RewrittenFunction
from stoker.compat.ffcv.rows import BatchRows, Sample
from stoker.compat.ffcv.working import WorkingMemory
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


class TriedStep(Protocol):
    """What is tried; see `stoker.compat.ffcv.step.LineStep`."""

    name: str
    before: State
    after: State
    queries: tuple[AllocationQuery, ...]
    code: RewrittenFunction
    plain: FunctionType
    memory: WorkingMemory
    is_batch_op: bool

    def run(self, batch: np.ndarray, keys: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Return the result for some rows."""
        ...

    def trial_keys(self, rows: BatchRows) -> np.ndarray:
        """Return the keys of rows."""
        ...

    def interpret(self, *, tried: bool = False) -> None:
        """Run as Python from now on; if it is tried, its compiled helpers too."""
        ...

    def compile(self, *, checked: bool = False) -> None:
        """Run as machine code from now on."""
        ...


def try_step(step: TriedStep, sample: Sample | None) -> None:
    """Try a step on noise, and if that has values that it cannot take, on rows of the dataset.

    Raises:
        BuildError: it cannot run, or mixes rows without being a batch op.
    """
    rng = generator(make_key(1, 2, 3, 4))
    count = 2 * TRIAL_ROWS if sample is None else len(sample.ids)
    ids = np.arange(100, 100 + count) if sample is None else sample.ids
    if sample is None or not step.code.calls_machine_code:
        value = noise((count, *step.before.shape), step.before.dtype, rng)
        try:
            _Trial(step, value, ids).check()
        except BuildError as error:
            if sample is None or not isinstance(error.__cause__, OF_VALUES):
                raise
        else:
            return
    _Trial(step, sample.values(), ids).check()


class _Trial:
    """One trial: values and ids of some rows."""

    def __init__(self, step: TriedStep, value: np.ndarray, ids: np.ndarray) -> None:
        self._step = step
        self._value = value
        self._rows = BatchRows(5, 6, ids)
        self._some = range(EVEN_ROWS if step.is_batch_op else TRIAL_ROWS)

    def check(self) -> None:
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
        step = self._step
        if step.code.by_row and mixes(step.plain, self._value, self._rows.ids, step.memory):
            raise BuildError(self._mixing())
        for others in ([TRIAL_ROWS + 1, 0], [0, TRIAL_ROWS, 2, 1]):
            among = self._run(others)
            if among[others.index(0)].tobytes() != first[0].tobytes():
                raise BuildError(self._mixing())

    def _mixing(self) -> str:
        return (
            f"{self._step.name} cannot be used: its result for a row depends on the other rows of "
            "the batch, so a sample would depend on its neighbors. Read only row i for row i; or, "
            "if it should mix rows, set is_batch_op = True on its class"
        )

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
                f"{step.after}{self._memory()}. Check that the sides of its input and its output "
                f"agree, also for odd sizes: -n // 2 is -(n // 2) - 1 if n is odd{self._even()}"
            ) from error

    def _memory(self) -> str:
        shapes = ", ".join(str(query.shape) for query in self._step.queries)
        return f" and requested memory of shape {shapes}" if shapes else ""

    def _even(self) -> str:
        if self._step.is_batch_op:
            return ""
        return (
            ". If it works on halves or pairs of the batch, set is_batch_op = True on its class: "
            "then it gets all rows at once, an even number of them in this trial"
        )

    def _check_result(self, result: Any) -> None:
        step = self._step
        shape = tuple(np.shape(result))[1:]
        dtype = getattr(result, "dtype", type(result).__name__)
        if not isinstance(result, np.ndarray) or (shape, dtype) != (
            tuple(step.after.shape),
            np.dtype(step.after.dtype),
        ):
            raise BuildError(
                f"{step.name} returned {dtype} of shape {shape} per row, but it declared "
                f"{step.after}: correct declare_state_and_memory, or the result of the function"
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
