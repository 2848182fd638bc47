"""The names in FFCV's `ffcv.loader.loader`."""

from typing import Final

from stoker.compat.ffcv.loader import Loader, OrderOption

ORDER_TYPE = OrderOption
DEFAULT_OS_CACHE: Final = True
DEFAULT_PROCESS_CACHE: Final = 0
"""Defaults of arguments that have no effect here."""

__all__ = ["DEFAULT_OS_CACHE", "DEFAULT_PROCESS_CACHE", "ORDER_TYPE", "Loader", "OrderOption"]
