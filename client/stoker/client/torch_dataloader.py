"""A Loader as a `torch.utils.data.DataLoader`, for tools that take nothing else.

Nothing is loaded here: each loop is a loop over the Loader, and the attributes of a DataLoader tell
what the Loader delivers. Tools make a DataLoader again from its parts to change its sampler; there
is nothing to change, so they are told in their own terms that it is done: the sampler is a
`DistributedSampler`, and the whole is prepared for Accelerate. Imports torch.
"""

from collections.abc import Iterator
from typing import Any, Final, NoReturn

from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from stoker.client.batch_sampler import Steps, only
from stoker.client.foreign_arguments import ELSEWHERE
from stoker.client.loader import Loader
from stoker.protocol.errors import UsageError

AGAIN: Final = (
    "got {}. A tool that makes it again from its parts (for another sampler, or workers) has no use"
    " for it: give the tool the Loader itself, or its switch against that"
)


class StepsOfView(Steps):
    """The batch sampler of a Loader, which cannot be made again with another sampler."""

    def __init__(self, steps: object, *_: object, **__: object) -> None:
        if not isinstance(steps, Steps):
            raise UsageError(
                "as_dataloader: expected the batch sampler of a Loader, "
                + AGAIN.format(type(steps).__name__)
            )
        vars(self).update(vars(steps))


class OrderOfDaemon(DistributedSampler[Any]):
    """The sampler of a Loader: it passes `set_epoch` on; the order itself is the daemon's."""

    def __init__(self, loader: Loader[Any]) -> None:
        super().__init__(
            loader.dataset,  # type: ignore[arg-type]  # it has what a Dataset has
            loader._world_size, loader._rank, shuffle=loader.spec.order.shuffle,
            drop_last=loader.drop_last,
        )  # fmt: skip
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        """Make the next loop start an epoch; no effect on a loader for evaluation."""
        if self._loader.sampler is not None:
            self._loader.set_epoch(epoch)

    def __len__(self) -> int:
        """Return the number of positions of this rank in an epoch, with those that pad."""
        return len(self._loader) * self._loader.batch_size

    def __iter__(self) -> NoReturn:
        raise UsageError(
            "the sampler of a Loader has no indices: the daemon decides the order. Iterate over the"
            " loader; the ids of its samples are in batch.index"
        )


class DataLoaderView(DataLoader[Any]):
    """A Loader, seen as a DataLoader; other attributes are the Loader's.

    Attributes:
        loader: the Loader.
    """

    _is_accelerate_prepared = True  # Accelerate leaves it as it is, and saves its state
    use_stateful_dataloader = True

    def __init__(self, loader: Loader[Any], **unknown: object) -> None:
        if not isinstance(loader, Loader):
            raise UsageError(
                "as_dataloader: expected a stoker.client.Loader, "
                + AGAIN.format(type(loader).__name__)
            )
        for name in unknown:
            advice = ELSEWHERE.get(name, "make the Loader with what you need")
            raise UsageError(
                f"as_dataloader has no argument {name!r}, since the Loader decides: {advice}"
            )
        super().__init__(
            loader.dataset,  # type: ignore[arg-type]  # it has what a Dataset has
            batch_sampler=StepsOfView(loader.batch_sampler),
            collate_fn=only,
        )
        self.loader = loader
        told = {
            "batch_size": loader.batch_size, "sampler": OrderOfDaemon(loader),
            "drop_last": loader.drop_last,
        }  # fmt: skip
        for name, value in told.items():
            object.__setattr__(self, name, value)  # a DataLoader refuses to change them

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        """Return the Loader's iterator over the next epoch."""
        return iter(self.loader)

    def __len__(self) -> int:
        """Return the number of batches in an epoch."""
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name == "loader" or name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __repr__(self) -> str:
        return f"as_dataloader({self.loader!r})"


def as_dataloader(loader: Loader[Any], **unknown: object) -> DataLoader[Any]:
    """Return a Loader as a `torch.utils.data.DataLoader`, for tools that take nothing else.

    Lightning, Accelerate, transformers and timm take the Loader itself. The result has the parts of
    a DataLoader (`dataset`, `batch_size`, `sampler`, `batch_sampler`, `len()`) and all attributes
    of the Loader, such as `state_dict` and `close`. A loop over it is a loop over the Loader.

    Args:
        loader: a Loader.
        unknown: none; those of a DataLoader are refused with what to write instead.

    Raises:
        UsageError: it is no Loader, or an argument is given.
    """
    return DataLoaderView(loader, **unknown)
