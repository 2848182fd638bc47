"""The names in FFCV's `ffcv.loader.loader`."""

from typing import Final

from stoker.compat.ffcv.loader import Loader, OrderOption
from stoker.compat.ffcv.traversal_order import QuasiRandom, Random, Sequential, TraversalOrder

ORDER_TYPE = OrderOption | type[TraversalOrder]
ORDER_MAP: Final[dict[OrderOption, type[TraversalOrder]]] = {
    OrderOption.SEQUENTIAL: Sequential,
    OrderOption.RANDOM: Random,
    OrderOption.QUASI_RANDOM: QuasiRandom,
}
DEFAULT_OS_CACHE: Final = True
DEFAULT_PROCESS_CACHE: Final = 0
"""Defaults of arguments that have no effect here."""

__all__ = [
    "DEFAULT_OS_CACHE",
    "DEFAULT_PROCESS_CACHE",
    "ORDER_MAP",
    "ORDER_TYPE",
    "Loader",
    "OrderOption",
]
