"""`QuasiRandom`: the order of `OrderOption.QUASI_RANDOM` as a class."""

import numpy as np

from stoker.compat.ffcv.traversal_order.base import TraversalOrder


class QuasiRandom(TraversalOrder):
    """Blocks in a new order in each epoch; Stoker's, as with `OrderOption.QUASI_RANDOM`."""

    def sample_order(self, epoch: int) -> np.ndarray:
        """Return the ids of an epoch's samples, of this rank."""
        found: np.ndarray = self.loader.ordered("quasi_random", epoch)
        return found
