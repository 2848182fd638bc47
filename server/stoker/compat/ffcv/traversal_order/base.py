"""`TraversalOrder`: the base of orders that a script defines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np


class TraversalOrder(ABC):
    """The order of a loader's samples; `Loader` makes it as `order(loader)`.

    Args:
        loader: has the attributes below, `batch_size` and `ordered`.

    Attributes:
        loader: the loader.
        indices: (n,) int64, ids of the samples to use.
        seed: the loader's.
        distributed: whether the loader is that of one rank, so that the order must be, too.
        sampler: None; for a `DistributedSampler` of the subclass.
    """

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.indices: np.ndarray = loader.indices
        self.seed: int = loader.seed
        self.distributed: bool = loader.distributed
        self.sampler: Any = None

    @abstractmethod
    def sample_order(self, epoch: int) -> Sequence[int] | np.ndarray:
        """Return the ids of an epoch's samples, of this rank, in order; they may repeat.

        Called once for each epoch. The order must depend on `epoch` and `seed` alone, so that an
        epoch can be repeated.
        """
