"""An FFCV operation as a function of one array: a step of a Stoker pipeline, in workers.

    CORNER = OperationFunction(PickACorner())            # at the top level of my_ops.py

    image = ops.python("my_ops:CORNER", image, size=16)  # in a pipeline

It draws from the row's own key and uses one core; its machine code is kept on disk. With the same
key it draws the same values as in `Loader`. One with `jit_mode=False` stays Python.
"""

from __future__ import annotations

import numpy as np

from stoker.compat.ffcv.batch_rows import declared
from stoker.compat.ffcv.compiled_step import CompiledStep
from stoker.compat.ffcv.field_reading import array_state
from stoker.compat.ffcv.operation_trial import no_batch
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State
from stoker.compat.ffcv.python_step import PythonStep
from stoker.protocol.errors import BuildError


class OperationFunction:
    """Call an operation on one sample: `function(array, rng) -> array`.

    Args:
        operation: works on arrays; prepared at the first call with each shape and dtype.
    """

    def __init__(self, operation: Operation) -> None:
        if operation.is_batch_op:
            raise no_batch(type(operation).__name__)
        self._operation = operation
        self._steps: dict[tuple[tuple[int, ...], str], CompiledStep | PythonStep] = {}

    def __call__(self, array: np.ndarray, rng: np.random.Generator) -> np.ndarray:  # noqa: TID251
        """Return the operation's result on a sample.

        Args:
            array: the sample's value.
            rng: the generator from `ops.python`; the row's key is read from it.

        Raises:
            BuildError: the operation cannot run on arrays of this form.
        """
        form = (array.shape, array.dtype.name)
        if form not in self._steps:
            self._steps[form] = _step(self._operation, array_state(*form))
        keys = _key_words(rng)
        rows = self._steps[form].run(array[None], keys, keys[:, 2].astype(np.int64))
        result: np.ndarray = rows[0]
        return result


def _step(operation: Operation, before: State) -> CompiledStep | PythonStep:
    name = type(operation).__name__
    after, _ = declared(operation, before, name)
    if not after.is_array:
        raise BuildError(
            f"{name} makes tensors; a step of a pipeline makes arrays: put it into your loop"
        )
    if not after.jit_mode:
        return PythonStep(operation, before, name, name, alone=True)
    return CompiledStep(operation, before, name, name, alone=True)


def _key_words(rng: np.random.Generator) -> np.ndarray:  # noqa: TID251
    """Return the words of the key that a generator was made from, (1, 5) uint64."""
    philox = rng.bit_generator.state["state"]
    seed, stream = (int(word) for word in philox["key"])
    counter = sum(int(word) << 64 * place for place, word in enumerate(philox["counter"])) + 1
    words = [seed, stream, *(counter >> 64 * place & 2**64 - 1 for place in (1, 2, 3))]
    return np.array([[np.uint64(word) for word in words]])
