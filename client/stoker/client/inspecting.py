"""Queries to a loader about its stream: accounts of epochs, replays of rows, counters."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from stoker.client.batch_sampler import EpochSampler, Steps, only
from stoker.client.batches.batch import Batch
from stoker.client.connection import DaemonConnection
from stoker.client.epoch_iterator import EpochIterator
from stoker.client.hosts.fleet import Fleet
from stoker.client.loader_samples import Samples, by_name, samples_in_words
from stoker.client.loader_statistics import Statistics
from stoker.client.opening import account_of
from stoker.client.position import Position
from stoker.protocol.accounts import EpochAccount
from stoker.protocol.errors import UsageError
from stoker.protocol.messages import Opened
from stoker.protocol.replayed_row import Replay
from stoker.protocol.request.argument_checks import within
from stoker.protocol.spec import MAX_VIEWS, StreamSpec


class Inspecting(ABC):
    """The part of `Loader` that reads no batches."""

    _connection: DaemonConnection | Fleet
    _opened: Opened
    _position: Position
    prefetch_factor: None = None
    """Read by tools that make a DataLoader; without workers in this process it must be None."""

    @property
    @abstractmethod
    def spec(self) -> StreamSpec:
        """The StreamSpec."""

    @abstractmethod
    def _check_usable(self) -> None:
        """Raise unless the loader can be used."""

    @abstractmethod
    def __iter__(self) -> EpochIterator[Any]:
        """Return an iterator over the next epoch."""

    @abstractmethod
    def skip(self, steps: int) -> None:
        """Leave out the next steps of the epoch."""

    @abstractmethod
    def set_epoch(self, epoch: int) -> None:
        """Make the next loop start that epoch."""

    @abstractmethod
    def _steps_left(self) -> int:
        """Return the number of steps of the next loop."""

    @property
    def batch_size(self) -> int:
        """Positions of this rank in a batch; rows are `spec.views` times as many."""
        return self._opened.rows // self.spec.views

    @property
    def num_workers(self) -> int:
        """Always 0: the worker processes belong to the daemon, not to this process."""
        return 0

    @property
    def dataset(self) -> Samples:
        """The samples of the stream as they are stored, by place, and their classes."""
        return Samples(self.spec, self._opened.classes, self._stored)

    @property
    def mixture(self) -> dict[str, range]:
        """The ids of each dataset of a mixture by its name, as in `batch.index`; otherwise empty.

        Sample i of the dataset "coco" has the id `loader.mixture["coco"][i]`.
        """
        found, first = {}, 0
        for name, rows in self._opened.mix:
            found[name] = range(first, first + rows)
            first += rows
        return found

    @property
    def sampler(self) -> EpochSampler | None:
        """Passes `set_epoch` on to the loader: Lightning calls it before each epoch.

        None for a loader made by `for_evaluation`, whose loops are all the same.
        """
        return None if self._position.repeats else EpochSampler(self.set_epoch)

    @property
    def drop_last(self) -> bool:
        """True if an incomplete last batch is left out."""
        return self.spec.tail == "drop"

    @property
    def collate_fn(self) -> Callable[[list[Any]], Any]:
        """Takes the only item of a list; see `batch_sampler`."""
        return only

    @property
    def batch_sampler(self) -> Steps:
        """The steps of the next loop, `[step]` each, and `loader.dataset[step]` is a batch.

        So tools that make a torch DataLoader of a loader's parts get its batches, such as
        Accelerate's `skip_first_batches`.
        """
        set_epoch = self.set_epoch if self.sampler else lambda epoch: None
        return Steps(
            self._steps_left, self.__iter__, self.skip, set_epoch, batch_size=self.batch_size,
            drop_last=self.drop_last,
        )  # fmt: skip

    def row(self, sample_id: int, epoch: int = 0) -> dict[str, Any]:
        """Return what the pipeline makes of a sample in an epoch: its outputs by name.

        Args:
            sample_id: one of `batch.index`.
            epoch: from 0.

        Raises:
            SampleError: the sample cannot be read, or does not fit the pipeline.
            UsageError: there is no such sample.
        """
        return by_name(self.replay(sample_id, epoch).outputs)

    def statistics(self) -> Statistics:
        """Return the loader's counters; after `close()`, their values at that moment."""
        return self._connection.statistics()

    def __reduce__(self) -> NoReturn:
        """Raise: a loader cannot be pickled, because a session belongs to one process."""
        raise UsageError(
            "a Loader cannot be pickled or copied; make one in each process with the same arguments"
        )

    def __repr__(self) -> str:
        spec, slab = self.spec, self._opened.slots * self._opened.slot_bytes
        return (
            f"{type(self).__name__}({samples_in_words(spec)}, pipeline "
            f"{spec.pipeline}, batch_size={self.batch_size}, seed={spec.seed}, "
            f"prefetch={self.prefetch}, memory {slab / 2**20:.1f} MiB)"
        )

    @property
    def prefetch(self) -> int:
        """Number of batches that the daemon prepares ahead."""
        return self._connection.prefetch

    def set_hosts(self, addresses: Sequence[str]) -> None:
        """Let these daemons make the batches from the next one on; no byte of them changes.

        Only for a loader that was made with a list of addresses. Daemons that come are waited for,
        and checked; if one fails, nothing changes.

        Args:
            addresses: of all daemons, also of those that the loader uses already.

        Raises:
            UsageError: the loader has one address or a directory, or an address is wrong, or a
                daemon has another stream.
            StokerError: as in the constructor.
        """
        self._check_usable()
        if not isinstance(self._connection, Fleet):
            raise UsageError(
                "set_hosts: this loader was made with one address; make it with a list of them, as"
                " in Loader([address], ...)"
            )
        if self._connection.follows:
            raise UsageError(
                "set_hosts: this loader follows a directory, which says where the daemons are; make"
                " it with a list of addresses, as in Loader([address], ...)"
            )
        self._connection.set_hosts(addresses)

    def account(self, epoch: int) -> EpochAccount:
        """Return the account of an epoch: how many samples are delivered, carried on, dropped.

        Only for a stream with buckets; it counts over all ranks. At the end of each epoch rank 0
        also logs it, as `stoker.client` at level INFO. `stoker buckets --json` lists the ids, for
        any epoch of a stream with `drop_last`.

        Args:
            epoch: from 0; any epoch, past or future.

        Raises:
            UsageError: the stream has no buckets, or the epoch is not an integer from 0.
        """
        found = account_of(self._opened, within("epoch", epoch, 0, 2**48))
        if found is None:
            raise UsageError(
                "account: the stream has no buckets, so every epoch delivers len(loader) batches "
                "of its samples; give buckets= to the Loader"
            )
        return found

    def _stored(self, place: int) -> Replay:
        self._check_usable()
        return self._connection.replay((place, 0, 0, 0, True))

    def replay(self, sample_id: int, epoch: int, visit: int = 0, view: int = 0) -> Replay:
        """Return a replay of a sample: every step of the pipeline, its parameters, every value.

        Nothing was recorded: the daemon computes that row again in a separate process, with the
        stream's seed and freezes. The outputs are the same bytes as in a batch. Works at any time,
        also in the middle of a loop, for any epoch, past or future.

        Args:
            sample_id: one of `batch.index`.
            epoch: the epoch, `batch.epoch`.
            visit: how often the id came before in the epoch.
            view: view of the position.

        Raises:
            SampleError: the sample cannot be read, or does not fit the pipeline.
            UsageError: the stream has no such id or view.
            DatasetError: the dataset changed since the stream was opened.
            PeerError: the daemon went away or does not answer in time.
        """
        self._check_usable()
        limits = {"sample_id": 2**48, "epoch": 2**48, "visit": 2**48, "view": MAX_VIEWS - 1}
        asked = zip(limits, (sample_id, epoch, visit, view), strict=True)
        numbers = [within(name, value, 0, limits[name]) for name, value in asked]
        return self._connection.replay((numbers[0], numbers[1], numbers[2], numbers[3], False))

    def replay_row(self, batch: Batch, row: int) -> Replay:
        """Return a replay of a row of one of this loader's batches; see `replay`.

        It finds id, visit and view itself, so a row of a later view, or one that shows a
        substitute, is replayed exactly as it was computed.

        Args:
            batch: a batch of this loader.
            row: a row of it, from 0.

        Raises:
            UsageError: the batch has no such row, or the row holds no sample.
            PeerError: the daemon went away or does not answer in time.
        """
        row = within("row", row, 0, len(batch.index) - 1)
        delivered, requested = int(batch.index[row]), int(batch.requested[row])
        if delivered < 0:
            raise UsageError(f"row {row} holds no sample: its index is -1")
        self._check_usable()
        if self.spec.buckets or self.spec.order.weights or self.spec.mix:
            epoch, visit, view = (int(number) for number in batch["drawn_as"][row])
            return self.replay(delivered, epoch, visit, view)
        first_row = self._opened.first_row
        position, view = divmod(first_row + row, self.spec.views)
        position += batch.step * self.spec.batch_size
        visit = position + 1 if delivered != requested else 0
        return self.replay(delivered, batch.epoch, visit, view)
