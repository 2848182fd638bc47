"""`Random`: the order of `OrderOption.RANDOM` as a class."""

import numpy as np

from stoker.compat.ffcv.traversal_order.base import TraversalOrder


class Random(TraversalOrder):
    """A new order in each epoch; Stoker's, as with `OrderOption.RANDOM`."""

    def sample_order(self, epoch: int) -> np.ndarray:
        """Return the ids of an epoch's samples, of this rank."""
        found: np.ndarray = self.loader.ordered("random", epoch)
        return found
