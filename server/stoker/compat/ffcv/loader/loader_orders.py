"""The samples of each batch of a loader: in Stoker's order, or in one that the script defines.

Stoker's order is that of a stream (docs/contracts/order.md): each rank gets its rows of every
batch. An order of the script gives the ids of one rank for an epoch, and they are cut into batches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np

from stoker.compat.ffcv.batch_rows import BatchRows
from stoker.compat.ffcv.traversal_order import TraversalOrder
from stoker.jit.arithmetic import COMPILED
from stoker.order.compose import dataset_order
from stoker.order.rank_rows import rank_rows
from stoker.protocol.errors import UsageError
from stoker.protocol.spec import StreamSpec


class LoaderOrder(Protocol):
    """The samples that a rank has in each batch."""

    def steps(self, epoch: int) -> int:
        """Return the number of batches of an epoch."""
        ...

    def running(self, epoch: int) -> Callable[[int], BatchRows]:
        """Return an epoch that begins: the number of a batch -> its samples."""
        ...


class OptionOrder:
    """Stoker's order; see `LoaderOrder`."""

    def __init__(self, spec: StreamSpec, chosen: np.ndarray, rank: int, ranks: int) -> None:
        """Prepare an order.

        Args:
            spec: of the stream.
            chosen: (n,) int64, the ids of the samples that it orders.
            rank: of this process.
            ranks: their number.

        Raises:
            UsageError: there is no full batch.
        """
        self._spec, self._chosen = spec, chosen
        self._rank, self._ranks = rank, ranks
        self._order = dataset_order(spec, arithmetic=COMPILED)

    def steps(self, epoch: int) -> int:
        """Return the number of batches of an epoch."""
        return self._order.steps(epoch)

    def running(self, epoch: int) -> Callable[[int], BatchRows]:
        """Return an epoch that begins: the number of a batch -> its samples."""
        return partial(self._rows, epoch)

    def _rows(self, epoch: int, step: int) -> BatchRows:
        cut = rank_rows(self._spec.batch_size, self._rank, self._ranks)
        ids = self._order.rows(epoch, step, *cut).ids
        return BatchRows(self._spec.seed, epoch, self._chosen[ids[ids >= 0]])

    def ids(self, epoch: int) -> np.ndarray:
        """Return the ids of an epoch, of this rank."""
        return np.concatenate([self._rows(epoch, step).ids for step in range(self.steps(epoch))])


class ScriptOrder:
    """An order that the script defines; see `LoaderOrder`.

    The script is asked once for each epoch, also if its length is asked for before it begins; a
    running epoch keeps its ids. A sample that comes again in an epoch has another visit, and so
    other draws.
    """

    def __init__(
        self, order: TraversalOrder, count: int, batch_size: int, *, drop_last: bool
    ) -> None:
        """Prepare an order.

        Args:
            order: the script's.
            count: number of samples of the dataset.
            batch_size: rows of a batch, of one rank.
            drop_last: leave out the last batch if it is not full.
        """
        self._order, self._count = order, count
        self._batch_size, self._drop_last = batch_size, drop_last
        self._latest: tuple[int, np.ndarray] | None = None

    def steps(self, epoch: int) -> int:
        """Return the number of batches of an epoch.

        Raises:
            UsageError: the order has no ids of the dataset.
        """
        full, rest = divmod(len(self._ids(epoch)), self._batch_size)
        return full + (rest > 0 and not self._drop_last)

    def running(self, epoch: int) -> Callable[[int], BatchRows]:
        """Return an epoch that begins: the number of a batch -> its samples."""
        ids = self._ids(epoch)
        visits = visits_of(ids)

        def rows(step: int) -> BatchRows:
            part = slice(step * self._batch_size, (step + 1) * self._batch_size)
            return BatchRows(self._order.seed, epoch, ids[part], visits[part])

        return rows

    def _ids(self, epoch: int) -> np.ndarray:
        latest = self._latest
        if latest is None or latest[0] != epoch:
            latest = self._latest = epoch, self._asked(epoch)
        return latest[1]

    def _asked(self, epoch: int) -> np.ndarray:
        ids = np.asarray(self._order.sample_order(epoch))
        name = f"{type(self._order).__name__}.sample_order({epoch})"
        if ids.ndim != 1 or (len(ids) and ids.dtype.kind not in "iu"):
            raise UsageError(
                f"{name}: expected a sequence of sample ids, got {ids.dtype} of shape {ids.shape}"
            )
        if len(ids) and not 0 <= ids.min() <= ids.max() < self._count:
            raise UsageError(
                f"{name}: expected ids from 0 to {self._count - 1}, got {ids.min()} to {ids.max()}"
            )
        return ids.astype(np.int64)


def visits_of(ids: np.ndarray) -> np.ndarray:
    """Return how often each id came before in a sequence, (n,) int64."""
    order = np.argsort(ids, kind="stable")
    places, ordered = np.arange(len(ids)), ids[order]
    begins = np.ones(len(ids), np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    visits = np.empty(len(ids), np.int64)
    visits[order] = places - np.maximum.accumulate(np.where(begins, places, 0))
    return visits
