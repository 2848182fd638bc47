"""One operation of a field's pipeline, prepared: rewritten, tried, compiled.

An operation is tried when the loader is built, so that faults are found then, with the user's line:
a function that raises, returns another shape or dtype than declared, returns two results for one
row, or makes a row depend on its neighbors (`stoker.compat.ffcv.operation_trial`).

A step runs on one thread at a time. Parallel machine code runs in numba's threads, one loop of the
process at a time, because not every threading layer of numba allows two.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from stoker.compat.ffcv.array_operation_step import ArrayOperationStep
from stoker.compat.ffcv.batch_rows import BatchRows, Sample
from stoker.compat.ffcv.operation_trial import try_step
from stoker.compat.ffcv.pipeline.compiler import Compiler, machine
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.compat.ffcv.rewriting import rebound, rewrite, without_machine_code
from stoker.compat.ffcv.row_loop import each_row_in_python, loop_around
from stoker.jit import compiled
from stoker.jit.functions import content_key

__all__ = ["BatchRows", "CompiledStep", "Sample"]
_parallel = threading.Lock()


class CompiledStep(ArrayOperationStep):
    """An operation as machine code, or as Python where compiling is off.

    See `ArrayOperationStep` for the rest.

    Attributes:
        plain: its rewritten function with compiled helpers as Python.
    """

    def __init__(
        self, operation: Operation, before: State, name: str, stream: str, **options: Any
    ) -> None:
        """Prepare it; options as for `ArrayOperationStep`."""
        self.gets_one_row = bool(options.get("alone"))
        super().__init__(operation, before, name, stream, **options)

    def run(self, batch: np.ndarray, keys: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Return the operation's result on a batch whose rows have these keys."""
        if self.seeds:
            keys = np.hstack([keys, keys])
        counts = np.zeros(len(keys), np.int64)
        dst = self.memory.request(len(batch))
        if not self._parallel:
            return self._compute(keys, counts, batch, dst, ids)
        with _parallel:
            return self._compute(keys, counts, batch, dst, ids)

    def trial_keys(self, rows: BatchRows) -> np.ndarray:
        """Return the keys that rows have in a trial."""
        return rows.keys(self._stream)

    def one(self, batch: np.ndarray, keys: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """Return the result for one row as the function returns it."""
        keys, counts = np.hstack([keys, keys]), np.zeros(1, np.int64)
        result: np.ndarray = self._run(keys, counts, batch, self.memory.request(1), ids)
        return result

    def interpret(self, *, tried: bool = False) -> None:
        """Run as Python from now on; if it is tried, its compiled helpers too."""
        self._run: Callable[..., Any] = self.plain if tried else self.code.function
        self._loop: Callable[..., Any] = partial(each_row_in_python, self._run)

    def compile(self, *, checked: bool = False) -> None:
        """Run as machine code from now on; with `checked` an index beyond an array raises."""
        inside = self._parallel and not self._by_row and not checked
        function = rebound(self.code.function, compiled, lambda helper: machine(helper, False))
        if not self._by_row:
            self._run = machine(function, inside, checked=checked, key=self._key)
        else:
            self._run = machine(function, False, checked=checked)
            loop = loop_around(self._run)
            several = self._parallel and not checked
            self._loop = machine(loop, several, checked=checked, key=self._key_of_loop)

    def _key(self, *parts: object) -> str | None:
        return content_key(self.code.function, *parts)

    def _key_of_loop(self, *parts: object) -> str | None:
        return content_key(self.code.function, "each row", content_key(loop_around(None)), *parts)

    def _prepare(self, sample: Sample | None, *, is_batch_op: bool) -> None:
        self.is_batch_op = is_batch_op
        self.code = rewrite(self._function, self.name, mixes=is_batch_op)
        self.draws, self.seeds = self.code.draws, self.code.seeds
        self._by_row = self.code.by_row and not is_batch_op
        # In a batch op all draws of a loop come from the first row, one after the other.
        in_order = is_batch_op and self.code.loops
        wanted = bool(getattr(self._function, "is_parallel", False)) and not self.gets_one_row
        self._parallel = wanted and not in_order and Compiler.is_enabled()
        self.plain = without_machine_code(self.code.function)
        self.interpret()
        try_step(self, sample)

    def _compute(
        self, keys: np.ndarray, counts: np.ndarray, batch: np.ndarray, dst: Any, ids: np.ndarray
    ) -> np.ndarray:
        if not self._by_row:
            return self._as_declared(self._run(keys, counts, batch, dst, ids))
        out = dst if self.memory.is_result else self.memory.result(len(batch))
        self._loop(keys, counts, batch, dst, ids, out)
        return self._as_declared(out)

    def _as_declared(self, result: Any) -> np.ndarray:
        """View uint16 bits as float16, because machine code cannot store float16."""
        half = isinstance(result, np.ndarray) and result.dtype == np.uint16
        array: np.ndarray = result
        return array.view(np.float16) if half and self.after.dtype == np.float16 else array
