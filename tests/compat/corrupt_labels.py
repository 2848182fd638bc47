"""FFCV's example of an operation with indices; in FFCV only the import lines differ."""

import numpy as np

from stoker.compat.ffcv.pipeline.compiler import Compiler
from stoker.compat.ffcv.pipeline.operation import AllocationQuery, Operation
from stoker.compat.ffcv.pipeline.state import State


class CorruptFixedLabels(Operation):
    """Replaces a fixed part of the labels, for each of those by a fixed label."""

    def __init__(self, part: float):
        super().__init__()
        self.part = part

    def generate_code(self):
        part, parallel_range = self.part, Compiler.get_iterator()

        def corrupt(labels, _, ids):
            for row in parallel_range(labels.shape[0]):
                np.random.seed(ids[row])
                if np.random.rand() < part:
                    labels[row] = np.random.randint(low=0, high=10)
            return labels

        corrupt.is_parallel = True
        corrupt.with_indices = True
        return corrupt

    def declare_state_and_memory(
        self, previous_state: State
    ) -> tuple[State, AllocationQuery | None]:
        return previous_state, None
