"""FFCV's orders: the three of `OrderOption` as classes, and the base of a script's own.

`Loader(order=...)` takes an `OrderOption`, one of these classes, or a subclass of `TraversalOrder`.
Scripts and the loader import them. They must not know datasets.
"""

from stoker.compat.ffcv.traversal_order.base import TraversalOrder
from stoker.compat.ffcv.traversal_order.quasi_random import QuasiRandom
from stoker.compat.ffcv.traversal_order.random import Random
from stoker.compat.ffcv.traversal_order.sequential import Sequential

__all__ = ["QuasiRandom", "Random", "Sequential", "TraversalOrder"]
