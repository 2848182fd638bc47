"""One operation of a field's pipeline, made ready: rewritten, tried, compiled.

An operation is tried on noise when the loader is built, so that what cannot run is told then, with
the user's line: a function that raises, gives another shape or dtype than declared, gives two
results for one row, or lets a row depend on its neighbours. The trial runs the plain Python form
first (machine code that writes beyond an array would not say so) and the compiled form after.

A step runs on one thread at a time. Parallel machine code runs in numba's threads, one loop of the
process at a time: not every threading layer of numba allows two.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numba
import numpy as np

from stoker.compat.ffcv.memory import Pool
from stoker.compat.ffcv.pipeline.allocation_query import Allocation, AllocationQuery
from stoker.compat.ffcv.pipeline.compiler import Compiler, machine
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.compat.ffcv.rewriting import COMPILED, Rewritten, rewrite
from stoker.jit import compiled
from stoker.ops.custom.foreign import generator, noise
from stoker.pipeline.compiled.diagnose import reason
from stoker.protocol.errors import BuildError, StokerError
from stoker.rng.streams import make_key, stream_key

TRIAL_ROWS: Final = 3
_parallel = threading.Lock()
prange = numba.prange


class BatchRows(NamedTuple):
    """Which rows a batch holds: all that their draws depend on, besides the stream.

    Attributes:
        seed: of the stream.
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
        after: the state that comes out.
    """

    def __init__(
        self, operation: Operation, before: State, name: str, stream: str, *, alone: bool = False
    ) -> None:
        """Prepare an operation.

        Args:
            operation: the operation.
            before: the state that goes in.
            name: what to call it in messages.
            stream: name of the stream it draws from.
            alone: run on one core, whatever the operation asks for.

        Raises:
            BuildError: it cannot run, or cannot keep to its rows; names it and says why.
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
        self._by_row = self._code.by_row and not self._batch_op
        wanted = bool(getattr(function, "is_parallel", False)) and not alone
        self._parallel = wanted and Compiler.is_enabled()
        self._pool = Pool()
        self._run: Callable[..., Any] = self._code.function
        self._loop: Callable[..., Any] = _plain_loop
        self._try()

    def __call__(self, batch: np.ndarray, rows: BatchRows) -> np.ndarray:
        """Return the operation's result on a batch."""
        return self.run(batch, rows.keys(self._stream), rows.ids.astype(np.int64))

    def run(self, batch: np.ndarray, keys: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Return the operation's result on a batch whose rows have these keys.

        Args:
            batch: (B, *shape) of the state that goes in; may be written to.
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
                f"{self.name}: an operation that draws single numbers, or in a loop, may ask for "
                "one memory only: draw arrays with one value for each row, before the loop"
            )
        out = dst
        if not self._queries:
            out = self._pool.take((len(batch), *self.after.shape), self.after.dtype)
        self._loop(self._run, keys, counts, batch, dst, ids, out)
        return self._as_declared(out)

    def _as_declared(self, result: Any) -> np.ndarray:
        """Machine code cannot store float16: an operation may give its bits as uint16."""
        half = isinstance(result, np.ndarray) and result.dtype == np.uint16
        array: np.ndarray = result
        return array.view(np.float16) if half and self.after.dtype == np.float16 else array

    def _try(self) -> None:
        rng = generator(make_key(1, 2, 3, 4))
        value = noise((2 * TRIAL_ROWS, *self._before.shape), self._before.dtype, rng)
        everyone = BatchRows(5, 6, np.arange(100, 100 + 2 * TRIAL_ROWS))
        with _quiet():
            self._check_result(self._tried(value, everyone, range(TRIAL_ROWS)))
        if Compiler.is_enabled():
            self._compile()
        first = self._tried(value, everyone, range(TRIAL_ROWS))
        self._check_result(first)
        again = self._tried(value, everyone, range(TRIAL_ROWS))
        if again.tobytes() != first.tobytes():
            raise BuildError(
                f"{self.name} cannot be used: it gave two results for the same rows, so it keeps "
                "something from call to call, or draws from something else than np.random"
            )
        if self._batch_op:
            return
        for others in ([TRIAL_ROWS + 1, 0], [0, TRIAL_ROWS, 2, 1]):
            among = self._tried(value, everyone, others)
            if among[others.index(0)].tobytes() != first[0].tobytes():
                raise BuildError(
                    f"{self.name} cannot be used: what it gives for a row depends on the other "
                    "rows of the batch, so a sample would depend on its neighbours. Read row i "
                    "for row i only; or, if mixing rows is what it is for, set is_batch_op = True "
                    "on its class"
                )

    def _tried(self, value: np.ndarray, everyone: BatchRows, places: Sequence[int]) -> np.ndarray:
        """Run on some rows of the trial."""
        chosen = np.array(places)
        rows = everyone._replace(ids=everyone.ids[chosen])
        try:
            return self(value[chosen], rows)
        except StokerError:
            raise
        except Exception as error:  # whatever the user's function or numba raises
            where = _user_line(error, self._code)
            raise BuildError(
                f"{where}{self.name} fails on {self._before}: {type(error).__name__}: "
                f"{reason(error)}. It declared "
                f"{self.after}{self._memory()}. Check that the sides of what it reads and of what "
                "it writes agree, odd sizes too: -n // 2 is one more than n // 2 where n is odd"
            ) from error

    def _memory(self) -> str:
        shapes = ", ".join(str(query.shape) for query in self._queries)
        return f" and asked for memory of shape {shapes}" if shapes else ""

    def _check_result(self, result: Any) -> None:
        shape = tuple(np.shape(result))[1:]
        dtype = getattr(result, "dtype", type(result).__name__)
        if not isinstance(result, np.ndarray) or (shape, dtype) != (
            tuple(self.after.shape),
            np.dtype(self.after.dtype),
        ):
            raise BuildError(
                f"{self.name} gave {dtype} of shape {shape} for each row, but it declared "
                f"{self.after}: correct declare_state_and_memory, or what the function returns"
            )

    def _compile(self) -> None:
        space = self._code.function.__globals__
        for function in COMPILED:
            if space.get(function.__name__) is function:
                space[function.__name__] = compiled(function)
        inside = self._parallel and not self._by_row
        self._run = machine(self._code.function, inside)
        if self._by_row:
            self._loop = machine(_loop, self._parallel)


def _loop(run: Any, keys: Any, counts: Any, batch: Any, dst: Any, indices: Any, out: Any) -> None:
    """Call a function for one row after the other, or for many at a time."""
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
    except Exception as error:  # whatever the user's method raises
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
    """NumPy warns where machine code wraps or divides in silence."""
    return np.errstate(all="ignore")


def _user_line(error: BaseException, code: Rewritten) -> str:
    trace, found = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code is code.function.__code__:
            found = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}: "
        trace = trace.tb_next
    return found
