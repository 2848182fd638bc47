"""`Sequential`: the order of `OrderOption.SEQUENTIAL` as a class."""

import numpy as np

from stoker.compat.ffcv.traversal_order.base import TraversalOrder


class Sequential(TraversalOrder):
    """The order of the dataset; Stoker's, as with `OrderOption.SEQUENTIAL`."""

    def sample_order(self, epoch: int) -> np.ndarray:
        """Return the ids of an epoch's samples, of this rank."""
        found: np.ndarray = self.loader.ordered("sequential", epoch)
        return found
