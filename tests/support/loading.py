"""Loaders of fake and real daemons, and what their batches have in common."""

from collections.abc import Iterable

from stoker.client import Batch, Loader
from stoker.protocol.digest import batch_digest


def load(daemon: object, **more: object) -> Loader:
    """A loader of the fake daemon's stream."""
    return Loader(daemon.address, pipeline="train", batch_size=16, **more)


def digest(batch: Batch) -> str:
    """The digest of a batch at its place."""
    return batch_digest(batch, batch.epoch, batch.step)


def places(batches: Iterable[Batch]) -> list[tuple[int, int]]:
    """The (epoch, step) of each batch."""
    return [(batch.epoch, batch.step) for batch in batches]
