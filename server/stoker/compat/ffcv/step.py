"""One operation of a field's pipeline, prepared: rewritten, tried, compiled.

An operation is tried when the loader is built, so that faults are found then, with the user's line:
a function that raises, returns another shape or dtype than declared, returns two results for one
row, or makes a row depend on its neighbors. It is tried on noise, and on rows of the dataset if it
does not take the noise, as a table of classes does. The trial runs the plain Python form first
(machine code that writes beyond an array would not report it) and the compiled form after it. Only
the compiled form decides on integer arithmetic, where Python and NumPy refuse more.

A step runs on one thread at a time. Parallel machine code runs in numba's threads, one loop of the
process at a time, because not every threading layer of numba allows two.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numba
import numpy as np

from stoker.compat.ffcv.calls import COMPILED
from stoker.compat.ffcv.memory import ArrayPool
from stoker.compat.ffcv.mixing import mixes
from stoker.compat.ffcv.pipeline.allocation_query import Allocation, AllocationQuery
from stoker.compat.ffcv.pipeline.compiler import Compiler, machine
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.compat.ffcv.rewriting import PREFIX, RewrittenFunction, rewrite
from stoker.jit import compiled
from stoker.ops.custom.foreign import generator, line_of, noise
from stoker.pipeline.compiled.diagnose import reason
from stoker.protocol.errors import BuildError, SampleError, StokerError
from stoker.rng.streams import make_key, stream_key

TRIAL_ROWS: Final = 3
OF_VALUES: Final = (
    IndexError, KeyError, ValueError, ZeroDivisionError, AssertionError, OverflowError
)  # fmt: skip
"""Errors of values that no sample of the dataset may have: class numbers, or ids beyond its end."""
_parallel = threading.Lock()
prange = numba.prange


class Sample(NamedTuple):
    """Rows of a dataset, as many as a trial has.

    Attributes:
        ids: (n,) int64, the first and the last id of the dataset before the others.
        values: returns the rows, (n, *shape), as the operation gets them.
    """

    ids: np.ndarray
    values: Callable[[], np.ndarray]


class BatchRows(NamedTuple):
    """The rows of a batch: everything that their draws depend on, besides the stream.

    Attributes:
        seed: seed of the stream.
        epoch: from 0.
        ids: (B,) int64, sample ids.
    """

    seed: int
    epoch: int
    ids: np.ndarray

    def keys(self, stream: str) -> np.ndarray:
        """Return the key of each row for a stream, (B, 5) uint64."""
        keys = np.zeros((len(self.ids), 5), np.uint64)
        keys[:, 0], keys[:, 1], keys[:, 3] = self.seed, stream_key(stream), self.epoch
        keys[:, 2] = self.ids
        return keys


class LineStep:
    """An operation on arrays, in the order of a pipeline.

    Attributes:
        name: field and operation, for messages.
        after: the state after it.
        draws: whether it draws.
    """

    def __init__(
        self,
        operation: Operation,
        before: State,
        name: str,
        stream: str,
        *,
        alone: bool = False,
        sample: Sample | None = None,
    ) -> None:
        """Prepare an operation.

        Args:
            operation: the operation.
            before: the state before it.
            name: its name in messages.
            stream: name of the stream that it draws from.
            alone: run on one core, even if the operation asks for several.
            sample: rows of the dataset.

        Raises:
            BuildError: it cannot run, or mixes rows; the message names it and the reason.
        """
        self.name = name
        self._stream = stream
        self._before = before
        self._batch_op = bool(operation.is_batch_op)
        self.after, allocation = _declared(operation, before, name)
        self._queries = _queries(allocation, name)
        self._several = bool(self._queries) and not isinstance(allocation, AllocationQuery)
        function = _generated(operation, name)
        self._code = rewrite(function, name, mixes=self._batch_op)
        self.draws = self._code.draws
        self._by_row = self._code.by_row and not self._batch_op
        wanted = bool(getattr(function, "is_parallel", False)) and not alone
        self._parallel = wanted and Compiler.is_enabled()
        self._pool = ArrayPool()
        self._run: Callable[..., Any] = self._code.function
        self._loop: Callable[..., Any] = _plain_loop
        self._try(sample)

    def __call__(self, batch: np.ndarray, rows: BatchRows) -> np.ndarray:
        """Return the operation's result on a batch.

        Raises:
            SampleError: it asked to exit, by SystemExit or KeyboardInterrupt.
        """
        keys, ids = rows.keys(self._stream), rows.ids.astype(np.int64)
        result: np.ndarray = on_samples(self.name, rows, lambda: self.run(batch, keys, ids))
        return result

    def run(self, batch: np.ndarray, keys: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Return the operation's result on a batch whose rows have these keys.

        Args:
            batch: (B, *shape) of the state before it; may be written to.
            keys: (B, 5) uint64, the words of each row's key.
            ids: (B,) int64, sample ids.
        """
        counts = np.zeros(len(keys), np.int64)
        memory = [self._pool.take((len(batch), *q.shape), q.dtype) for q in self._queries]
        dst: Any = tuple(memory) if self._several else None
        if dst is None:
            dst = memory[0] if memory else np.empty((len(batch), 0), np.uint8)
        if not self._parallel:
            return self._compute(keys, counts, batch, dst, ids)
        with _parallel:
            return self._compute(keys, counts, batch, dst, ids)

    def _compute(
        self, keys: np.ndarray, counts: np.ndarray, batch: np.ndarray, dst: Any, ids: np.ndarray
    ) -> np.ndarray:
        if not self._by_row:
            return self._as_declared(self._run(keys, counts, batch, dst, ids))
        if isinstance(dst, tuple):
            raise BuildError(
                f"{self.name}: an operation that draws single numbers, or in a loop, may request "
                "only one AllocationQuery: draw arrays with one value per row, before the loop"
            )
        out = dst
        if not self._queries:
            out = self._pool.take((len(batch), *self.after.shape), self.after.dtype)
        self._loop(self._run, keys, counts, batch, dst, ids, out)
        return self._as_declared(out)

    def _as_declared(self, result: Any) -> np.ndarray:
        """View uint16 bits as float16, because machine code cannot store float16."""
        half = isinstance(result, np.ndarray) and result.dtype == np.uint16
        array: np.ndarray = result
        return array.view(np.float16) if half and self.after.dtype == np.float16 else array

    def _try(self, sample: Sample | None) -> None:
        """Try it on noise, and if that has values that it cannot take, on rows of the dataset."""
        rng = generator(make_key(1, 2, 3, 4))
        value = noise((2 * TRIAL_ROWS, *self._before.shape), self._before.dtype, rng)
        ids = np.arange(100, 100 + 2 * TRIAL_ROWS) if sample is None else sample.ids
        try:
            self._try_on(value, ids)
        except BuildError as error:
            if sample is None or not isinstance(error.__cause__, OF_VALUES):
                raise
            self._run, self._loop = self._code.function, _plain_loop
            self._try_on(sample.values(), ids)

    def _try_on(self, value: np.ndarray, ids: np.ndarray) -> None:
        everyone = BatchRows(5, 6, ids)
        if not Compiler.is_enabled():
            with _quiet():
                self._check_result(self._tried(value, everyone, range(TRIAL_ROWS)))
        else:
            self._try_in_python(value, everyone)
            self._compile()
        first = self._tried(value, everyone, range(TRIAL_ROWS))
        self._check_result(first)
        again = self._tried(value, everyone, range(TRIAL_ROWS))
        if again.tobytes() != first.tobytes():
            raise BuildError(
                f"{self.name} cannot be used: it returned two results for the same rows, so it "
                "keeps state between calls, or draws from something other than np.random"
            )
        if self._batch_op:
            return
        if self._by_row and mixes(self._code.function, value, everyone.ids, self._queries):
            raise BuildError(self._mixing())
        for others in ([TRIAL_ROWS + 1, 0], [0, TRIAL_ROWS, 2, 1]):
            among = self._tried(value, everyone, others)
            if among[others.index(0)].tobytes() != first[0].tobytes():
                raise BuildError(self._mixing())

    def _mixing(self) -> str:
        return (
            f"{self.name} cannot be used: its result for a row depends on the other rows of the "
            "batch, so a sample would depend on its neighbors. Read only row i for row i; or, if "
            "it should mix rows, set is_batch_op = True on its class"
        )

    def _try_in_python(self, value: np.ndarray, everyone: BatchRows) -> None:
        """Find faults that machine code would not report.

        Python refuses integer arithmetic that machine code wraps, and NumPy gives it other dtypes.
        So its results do not count, and after such an error machine code that checks each index
        runs instead.
        """
        try:
            with _quiet():
                self._tried(value, everyone, range(TRIAL_ROWS))
        except BuildError as error:
            if not isinstance(error.__cause__, OverflowError | TypeError):
                raise
            self._compile(checked=True)
            self._tried(value, everyone, range(TRIAL_ROWS))

    def _tried(self, value: np.ndarray, everyone: BatchRows, places: Sequence[int]) -> np.ndarray:
        """Run it on some rows of the trial."""
        chosen = np.array(places)
        rows = everyone._replace(ids=everyone.ids[chosen])
        try:
            return self.run(value[chosen], rows.keys(self._stream), rows.ids)
        except StokerError:
            raise
        except (Exception, SystemExit) as error:  # the user's function may raise anything
            where = _user_line(error, self._code)
            raise BuildError(
                f"{where}{self.name} fails on {self._before}: {type(error).__name__}: "
                f"{reason(error)}. It declared "
                f"{self.after}{self._memory()}. Check that the sides of its input and its "
                "output agree, also for odd sizes: -n // 2 is -(n // 2) - 1 if n is odd"
            ) from error

    def _memory(self) -> str:
        shapes = ", ".join(str(query.shape) for query in self._queries)
        return f" and requested memory of shape {shapes}" if shapes else ""

    def _check_result(self, result: Any) -> None:
        shape = tuple(np.shape(result))[1:]
        dtype = getattr(result, "dtype", type(result).__name__)
        if not isinstance(result, np.ndarray) or (shape, dtype) != (
            tuple(self.after.shape),
            np.dtype(self.after.dtype),
        ):
            raise BuildError(
                f"{self.name} returned {dtype} of shape {shape} per row, but it declared "
                f"{self.after}: correct declare_state_and_memory, or the result of the function"
            )

    def _compile(self, *, checked: bool = False) -> None:
        space = self._code.function.__globals__
        for function in COMPILED:
            if space.get(PREFIX + function.__name__) is function:
                space[PREFIX + function.__name__] = compiled(function)
        inside = self._parallel and not self._by_row and not checked
        self._run = machine(self._code.function, inside, checked=checked)
        if self._by_row:
            self._loop = machine(_loop, self._parallel and not checked)


def on_samples(name: str, rows: BatchRows, function: Callable[[], Any]) -> Any:
    """Return a function's result; what would end the script, or the thread, is an error.

    Args:
        name: field and operation, for the message.
        rows: the rows that it works on.
        function: calls the operation.

    Raises:
        SampleError: it raised SystemExit, or KeyboardInterrupt where that cannot be a Ctrl-C.
    """
    try:
        return function()
    except (SystemExit, KeyboardInterrupt) as error:
        scripts = threading.current_thread() is threading.main_thread()
        if isinstance(error, KeyboardInterrupt) and scripts:
            raise
        raise SampleError(
            f"{name} raised {type(error).__name__}: {error}{line_of(error)}, on samples "
            f"{', '.join(map(str, rows.ids[:8]))}{', ...' if len(rows.ids) > 8 else ''}, epoch "
            f"{rows.epoch}. An operation must not end the program: raise another exception",
            epoch=rows.epoch,
            seed=rows.seed,
        ) from error


def _loop(run: Any, keys: Any, counts: Any, batch: Any, dst: Any, indices: Any, out: Any) -> None:
    """Call a function for each row, one after the other or in parallel."""
    for i in prange(batch.shape[0]):
        j = i + 1
        result = run(keys[i:j], counts[i:j], batch[i:j], dst[i:j], indices[i:j])
        if result.ctypes.data != out[i:j].ctypes.data:
            out[i:j] = result


def _plain_loop(
    run: Any, keys: Any, counts: Any, batch: Any, dst: Any, indices: Any, out: Any
) -> None:
    for i in range(len(batch)):
        row = slice(i, i + 1)
        out[row] = run(keys[row], counts[row], batch[row], dst[row], indices[row])


def _declared(operation: Operation, before: State, name: str) -> tuple[State, Allocation]:
    try:
        after, allocation = operation.declare_state_and_memory(before)
    except StokerError:
        raise
    except (Exception, SystemExit) as error:  # the user's method may raise anything
        raise BuildError(
            f"{name}: declare_state_and_memory failed on {before} with {type(error).__name__}: "
            f"{error}"
        ) from error
    return after, allocation


def _queries(allocation: Allocation, name: str) -> tuple[AllocationQuery, ...]:
    if allocation is None:
        return ()
    found = (allocation,) if isinstance(allocation, AllocationQuery) else tuple(allocation)
    for query in found:
        if not isinstance(query, AllocationQuery):
            raise BuildError(f"{name}: expected an AllocationQuery, got {query!r}")
    return found


def _generated(operation: Operation, name: str) -> Callable[..., Any]:
    function = operation.generate_code()
    if not callable(function):
        raise BuildError(f"{name}: generate_code must return a function, got {function!r}")
    return function


def _quiet() -> Any:
    """Silence NumPy's warnings: machine code wraps and divides without any."""
    return np.errstate(all="ignore")


def _user_line(error: BaseException, code: RewrittenFunction) -> str:
    trace, found = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code is code.function.__code__:
            found = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}: "
        trace = trace.tb_next
    return found
