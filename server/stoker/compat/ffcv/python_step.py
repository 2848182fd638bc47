"""One operation on arrays that stays Python: OpenCV, Pillow, Albumentations, SciPy.

Its state after it has `jit_mode=False` and a NumPy dtype. It gets one row at a time, unless it is a
batch op. Its own calls of `np.random` and `random` are rewritten, as in compiled operations. What
libraries draw comes from the generators of the process (`random`, `np.random`, torch's on the CPU),
which are seeded from the row's key and then restored; objects with a generator of their own, which
have `set_random_seed`, are seeded by that. So a row depends on its key alone. Whether it draws is
found by a trial when the loader is built: an operation that does runs on the script's thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from types import FunctionType
from typing import Any, Final

import numpy as np

from stoker.compat.ffcv.array_operation_step import ArrayOperationStep
from stoker.compat.ffcv.batch_need import needs_batch
from stoker.compat.ffcv.batch_rows import BatchRows, Sample, key_in
from stoker.compat.ffcv.operation_trial import (
    TRIAL_ROWS,
    check_reads,
    mixing_error,
    state_of,
    try_on_values,
)
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.compat.ffcv.rewriting import rewrite
from stoker.compat.ffcv.row_loop import rows_of
from stoker.ops.custom.foreign import generator_states, kept, line_of, seeded
from stoker.protocol.errors import BuildError, StokerError
from stoker.rng.philox import key_block

EPOCHS: Final = 6
"""Epochs of the trial that looks for draws that are equal in all of them."""
SET_SEED: Final = "set_random_seed"
"""Method of Albumentations' transforms; each has generators of its own."""


class PythonStep(ArrayOperationStep):
    """An operation that stays Python; see `ArrayOperationStep`.

    Attributes:
        is_foreign: whether generators of the process, or of libraries, are seeded for it.
    """

    gets_one_row = True
    _is_fixed = False

    def _prepare(self, sample: Sample | None, *, is_batch_op: bool) -> None:
        self.is_batch_op = is_batch_op
        self.code = rewrite(self._function, self.name, mixes=is_batch_op, machine=False)
        self._owned = list(_with_seeds(self.code.function, self._operation))
        self.seeds = self.code.seeds
        self.is_foreign = bool(self._owned)
        try_on_values(self, sample, self._try_on)
        self.draws = self.code.draws or self.is_foreign

    def run(
        self,
        batch: np.ndarray,
        keys: np.ndarray,
        ids: np.ndarray,
        ends: dict[str, set[Any]] | None = None,
    ) -> np.ndarray:
        """Return the operation's result on a batch whose rows have these keys.

        Args:
            batch: as in `ArrayOperationStep`, like the next two.
            keys: the words of each row's key.
            ids: sample ids.
            ends: receives the states of the generators after the first row, by name.
        """
        keys, counts = np.hstack([keys, keys]), np.zeros(len(keys), np.int64)
        dst = self.memory.request(len(batch))
        out: np.ndarray | None = None
        step = len(batch) if self.is_batch_op else 1
        for low in range(0, len(batch), max(step, 1)):
            part = slice(low, low + step)
            with self._seeded(keys[low]):
                result = self.code.function(
                    keys[part], counts[part], batch[part], rows_of(dst, low, low + step), ids[part]
                )
                if ends is not None and low == 0:
                    for generator_name, state in generator_states().items():
                        ends.setdefault(generator_name, set()).add(state)
            array = self._checked(result, batch[part])
            if out is None:
                out = self.memory.result(len(batch)).view(self.after.dtype)
            out[part] = array
        if out is None:
            out = self.memory.result(0).view(self.after.dtype)
        return out

    def take(self, after: State) -> None:
        """Take the state of its results, and prepare memory for them, which is zeroed."""
        super().take(after)
        self.memory.is_cleared = True

    def _seeded(self, words: np.ndarray) -> Any:
        if not self.is_foreign:
            return nullcontext()
        key = key_in(words)
        for number, owner in enumerate(self._owned):
            getattr(owner, SET_SEED)(key_block(key, number)[0] & 0xFFFFFFFF)
        return seeded(key)

    def _checked(self, result: Any, given: np.ndarray) -> np.ndarray:
        """Return a result as an array; the first one of the trial may have its own form."""
        array = np.asarray(result)
        found = (array.shape, array.dtype)
        if found != ((len(given), *self.after.shape), np.dtype(self.after.dtype)):
            after = state_of(array, len(given), self.after, self.name)
            if self._is_fixed:
                raise BuildError(
                    f"{self.name} returned {after} for one row and {self.after} for another: "
                    "return one dtype and shape for all rows"
                )
            self.take(after)
        self._is_fixed = True
        return array

    def _try_on(self, whole: np.ndarray, ids: np.ndarray) -> None:
        rows = BatchRows(5, 6, ids[: TRIAL_ROWS + self.is_batch_op])
        value = whole[: len(rows.ids)]
        if self.is_batch_op:
            return self._check(value, rows)
        try:
            self._check(value, rows)
        except BuildError:
            if self._needs_batch(whole, ids):
                raise mixing_error(self.name, is_declared=self.is_declared) from None
            raise
        if not self._owned and self._needs_batch(whole, ids, is_tried=True):
            raise mixing_error(self.name, is_declared=self.is_declared)
        return check_reads(self)

    def _needs_batch(self, value: np.ndarray, ids: np.ndarray, *, is_tried: bool = False) -> bool:
        deep = not self.code.reads.is_certain
        seeded = self._seeded if is_tried and self.is_foreign else None
        function = self.code.function
        with kept(0):
            return needs_batch(function, value, ids, self.memory, deep=deep, seeded=seeded)

    def _check(self, value: np.ndarray, rows: BatchRows) -> None:
        with kept(0) as untouched:
            first = self._tried(value, rows)
            self.is_foreign = self.is_foreign or not untouched()
        first, again = (self._tried(value, rows) for _ in range(2))
        if first.tobytes() != again.tobytes():
            raise BuildError(
                f"{self.name} cannot be used: it returned two results for the same rows, so it "
                "keeps state between calls, or draws from a generator of its own: draw from "
                "np.random or random"
            )
        if self.is_foreign:
            self._check_epochs(value, rows)

    def _check_epochs(self, value: np.ndarray, rows: BatchRows) -> None:
        """Check that it has not seeded the generators of the process by itself."""
        ends: dict[str, set[Any]] = {}
        for epoch in range(EPOCHS):
            self._tried(value, rows._replace(epoch=epoch), ends)
        if any(len(known) == 1 for known in ends.values()):
            raise BuildError(
                f"{self.name} cannot be used: code that it calls seeds random, numpy.random or "
                "torch, so it would draw the same in every epoch: seed in the operation's own "
                "function, with np.random.seed(indices[-1]), or leave the seed out"
            )

    def _tried(
        self, value: np.ndarray, rows: BatchRows, ends: dict[str, set[Any]] | None = None
    ) -> np.ndarray:
        try:
            return self.run(value.copy(), rows.keys(self._stream), rows.ids, ends)
        except StokerError:
            raise
        except (Exception, SystemExit) as error:  # the user's function may raise anything
            raise BuildError(
                f"{self.name} fails on {self.before}: {type(error).__name__}: {error}"
                f"{line_of(error)}. It declared {self.after}: check that the sides of its input "
                "and its output agree"
            ) from error


def _with_seeds(function: FunctionType, operation: Operation) -> Iterator[Any]:
    """Yield what a function or an operation holds that can be seeded by its own method."""
    names = [name for name in function.__code__.co_names if name in function.__globals__]
    found = {}
    for value in (*(function.__globals__[name] for name in names), *vars(operation).values()):
        several = isinstance(value, list | tuple)
        for one in value if several else [value]:
            if callable(getattr(one, SET_SEED, None)) and not isinstance(one, type):
                found[id(one)] = one
    yield from found.values()
