"""`Loader`: iterate over the batches of a stream, epoch by epoch; save and resume.

It runs in the training process, in one thread at a time. The constructor opens the stream, so every
wrong argument raises there. The loader's position in the stream is one `NextStep`: the next step to
deliver; prefetched batches do not count. `_planned` overrides where the next `iter()` starts (a
fresh loader, `set_epoch`, a loaded cursor, `skip`); None means at the next epoch.

Invariant: after batch (epoch, step) was delivered, the place is (epoch, step + 1), even if the
caller leaves the loop or keeps the batch, or the daemon dies; so `state_dict()` is always exact.
"""

import dataclasses
import functools
import logging
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, NoReturn

import numpy as np

from stoker.client.batch import Batch
from stoker.client.connection import Connection
from stoker.client.delivery import crashed_before
from stoker.client.device import Target
from stoker.client.epoch import EpochIterator
from stoker.client.opening import account_of, steps_of
from stoker.client.options import Options, within
from stoker.client.ranks import resolve_ranks
from stoker.client.resume import NextStep, place_of
from stoker.client.side import forked_error
from stoker.client.statistics import Statistics
from stoker.protocol.accounts import EpochAccount
from stoker.protocol.buckets import Buckets
from stoker.protocol.cursor import Cursor
from stoker.protocol.errors import ClosedError, UsageError
from stoker.protocol.lengths import LengthBuckets
from stoker.protocol.replay import Replay
from stoker.protocol.spec import MAX_VIEWS, StreamSpec

_log = logging.getLogger("stoker.client")


class Loader:
    """Batches of a dataset through a pipeline, from a daemon on this host.

    Iterating yields `Batch` objects: mappings by output name (and attributes) of torch tensors or
    NumPy arrays of shape (rows, ...), plus `index`, `requested`, `valid`, `epoch` and `step`.
    Each `iter()` is the next epoch. One iterator at a time; one thread at a time.

    Args:
        address_or_path: `ipc:///dir/stoker.sock`; or the path of a packed dataset, of tar or Arrow
            files to read in place, or the `module:Class` of a live source. With a path a private
            daemon is started. The local ranks of one job share it, and it ends with its last
            client.
        dataset: name of the dataset at the daemon; may be omitted if the daemon has only one, and
            must be omitted with a path.
        pipeline: name of a pipeline at the daemon; with a path, `"module:attribute"`; or a pipeline
            object of `stoker.pipeline`.
        batch_size: positions per rank in a batch; the global batch is batch_size * world_size.
        global_batch_size: positions in a batch over all ranks. Give exactly one of the two.
        seed: seed of the shuffle and of every draw, 0 to 2**64 - 1.
        shuffle: whether each epoch has its own order.
        drop_last: drop an incomplete last batch; False pads it with rows that are not `valid`.
        rank: this process's rank; None (with world_size None) asks `torch.distributed`.
        world_size: number of ranks.
        device: "cpu" (torch tensors, or NumPy arrays if torch is not installed), "numpy", or
            "cuda[:number]".
        prefetch: number of batches that the daemon prepares ahead.
        group: name of a group whose members share memory.
        on_error: what happens to a sample that cannot be used: "raise", "replace" or "mask".
        exclude: samples to leave out: ids, or the path of a file that lists them, one per line,
            such as a quarantine file of the daemon. A stream without some samples is another
            stream. as a quarantine file of the daemon. Without them it is another stream.
        views: rows per position, each with its own draws.
        freeze: stream name -> the integer that replaces a draw's (id, epoch, visit, view), or
            "epoch" to fix only the epoch.
        total_epochs: length of schedules, for pipelines that read it.
        workers: worker processes of a private daemon; None lets the daemon count the processors.
        as_numpy: return NumPy arrays, as device="numpy" does.
        buckets: batches of one size each, chosen by the size of each image, or batches of sequences
            of similar length; see `Buckets` and `LengthBuckets`. Every batch then has an output
            `drawn_as`: (rows, 3) int64, the epoch, visit and view that each row draws with.
        params: whether every batch has its draw records, as `batch.params`.
        connect_timeout_s: time limit for the daemon to answer (for a private one: to start).
        timeout_s: time limit for the daemon to open the stream, and for each batch.

    Raises:
        UsageError: an argument is wrong; the message says which one and what is expected.
        ConnectError: nobody listens at the address.
        DatasetError: the dataset is missing or cannot be read.
        StokerError: the daemon refuses; it sent the error.
    """

    def __init__(  # noqa: PLR0913  (each is one decision of the user, all but one by keyword)
        self,
        address_or_path: str | os.PathLike[str],
        *,
        dataset: str | None = None,
        pipeline: object,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
        device: object = "cpu",
        prefetch: int = 4,
        group: str | None = None,
        on_error: str = "raise",
        exclude: str | os.PathLike[str] | Iterable[int] | None = None,
        views: int = 1,
        freeze: Mapping[str, int | str] | None = None,
        total_epochs: int | None = None,
        workers: int | None = None,
        as_numpy: bool = False,
        buckets: Buckets | LengthBuckets | None = None,
        params: bool = False,
        connect_timeout_s: float = 10.0,
        timeout_s: float = 600.0,
    ) -> None:
        rank, world_size = resolve_ranks(rank, world_size)
        options = Options(
            dataset=dataset,
            pipeline=pipeline,
            batch_size=batch_size,
            global_batch_size=global_batch_size,
            seed=seed,
            shuffle=shuffle,
            drop_last=drop_last,
            rank=rank,
            world_size=world_size,
            prefetch=prefetch,
            group=group,
            on_error=on_error,
            exclude=exclude,
            views=views,
            freeze=freeze,
            total_epochs=total_epochs,
            params=params,
            buckets=buckets,
        )
        self._world_size = world_size
        self._params = params
        self._pid = os.getpid()
        self._connection = Connection(
            address_or_path,
            options,
            Target(device, as_numpy),
            workers=workers,
            connect_timeout_s=connect_timeout_s,
            timeout_s=timeout_s,
        )
        self._close = weakref.finalize(self, self._connection.close)
        self._place = NextStep()
        self._planned: NextStep | None = NextStep()
        self._exact = False
        self._turn = 0
        self._crashed = self._connection.delivery.crashed
        self._spec = self._connection.stream.spec
        self._opened = self._connection.stream.opened
        self._steps = steps_of(self._opened)
        self._accounts_told = options.rank == 0 and bool(self._opened.buckets)

    @property
    def spec(self) -> StreamSpec:
        """The StreamSpec: everything that determines the bytes of the stream."""
        return self._spec

    def __len__(self) -> int:
        """Return the number of batches in an epoch.

        With buckets, epochs may differ by a few: it is the number for the running epoch, or, before
        a loop, for the next one.
        """
        return self._steps((self._planned or self._place).epoch)

    def __iter__(self) -> Iterator[Batch]:
        """Start the next epoch, or at the place that was loaded or set; ends an older iterator.

        Raises:
            ClosedError: the loader was closed.
            UsageError: this process was forked from the one that made the loader.
        """
        self._check_usable()
        place, exact = self._planned, self._exact
        if place is None or (place.step >= self._steps(place.epoch) and not exact):
            place = NextStep((place or self._place).epoch + 1)
        self._place, self._planned, self._exact = place, None, False
        self._turn += 1
        return EpochIterator(functools.partial(self._next, self._turn), self._tell_account)

    def set_epoch(self, epoch: int) -> None:
        """Make the next `iter()` start that epoch, or continue in it from a loaded cursor.

        Raises:
            UsageError: the epoch is not an integer from 0.
        """
        if isinstance(epoch, bool) or not isinstance(epoch, int) or not 0 <= epoch <= 2**48:
            raise UsageError(f"set_epoch({epoch!r}): expected an integer from 0 to 2**48")
        if self._planned is None or self._planned.epoch != epoch:
            self._planned = NextStep(epoch)
        self._exact = True

    def skip(self, steps: int) -> None:
        """Leave out the next steps of the epoch; the cursor counts them.

        Inside a loop, that loop continues after them; before one, the next `iter()` starts there.

        Raises:
            UsageError: the epoch has fewer steps left.
        """
        place = self._planned if self._planned is not None else self._place
        left = max(self._steps(place.epoch) - place.step, 0)
        if isinstance(steps, bool) or not isinstance(steps, int) or not 0 <= steps <= left:
            raise UsageError(
                f"skip({steps!r}): expected an integer from 0 to {left}, the steps left in epoch "
                f"{place.epoch}"
            )
        place = NextStep(place.epoch, place.step + steps, place.skipped + steps)
        if self._planned is not None:
            self._planned = place
        else:
            self._place = place

    def state_dict(self) -> dict[str, Any]:
        """Return the cursor: plain data, at most 1 KiB as JSON, the same on every rank.

        It names the step after the last batch delivered (before the first batch: the place where
        the next loop starts). Prefetched batches do not count. It still works after the daemon was
        lost and after `close()`.
        """
        place = self._planned if self._planned is not None else self._place
        crashed = crashed_before(self._crashed, (place.epoch, place.step))
        return Cursor.at(self.spec, place.epoch, place.step, place.skipped, crashed).to_data()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Make the next `iter()` continue at a cursor.

        A cursor at the end of an epoch continues with the next epoch's first step.

        Raises:
            ResumeError: it is not a cursor, or belongs to another stream; the message says what
                changed.
        """
        cursor = Cursor.from_data(dict(state) if isinstance(state, Mapping) else state)
        steps = self._steps(cursor.epoch)
        self._planned = place_of(cursor, self.spec, steps, self._world_size)
        self._exact = False
        self._crashed.clear()
        self._crashed.update(dict.fromkeys(cursor.crashed, (cursor.epoch, cursor.step - 1)))

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
        return self._connection.replay((numbers[0], numbers[1], numbers[2], numbers[3]))

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
        if self.spec.buckets is not None:
            epoch, visit, view = (int(number) for number in batch["drawn_as"][row])
            return self.replay(delivered, epoch, visit, view)
        first_row = self._connection.stream.opened.first_row
        position, view = divmod(first_row + row, self.spec.views)
        position += batch.step * self.spec.batch_size
        visit = position + 1 if delivered != requested else 0
        return self.replay(delivered, batch.epoch, visit, view)

    def statistics(self) -> Statistics:
        """Return the loader's counters; after `close()`, their values at that moment."""
        return self._connection.statistics()

    def close(self) -> None:
        """End the session; delivered tensors stay valid. A second call does nothing."""
        self._close()

    def __reduce__(self) -> NoReturn:
        """Raise: a loader cannot be pickled, because a session belongs to one process."""
        raise UsageError(
            "a Loader cannot be pickled or copied; make one in each process that loads, from the "
            "same arguments"
        )

    def __enter__(self) -> "Loader":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _next(self, turn: int) -> Batch | None:
        self._check_usable()
        if turn != self._turn:
            raise ClosedError(
                "this iterator ended when the loader was iterated again; a loader has only one "
                "iterator at a time, so make a second Loader for a second loop"
            )
        place = self._place
        if place.step >= self._steps(place.epoch):
            self._connection.delivery.release()
            return None
        arrays = self._connection.source.get(place.epoch, place.step)
        arrays = self._connection.delivery.whole(arrays)
        nothing: dict[str, np.ndarray] | None = {} if self._params else None
        drawn = self._connection.delivery.params.pop((place.epoch, place.step), nothing)
        batch = Batch(arrays, place.epoch, place.step, self._spec, drawn)
        self._connection.delivered += 1
        self._place = dataclasses.replace(place, step=place.step + 1)
        return batch

    def _tell_account(self) -> None:
        """Log the account of the epoch that has just ended."""
        if self._accounts_told:
            _log.info("%s", self.account(self._place.epoch))

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise forked_error(self._pid)
        if not self._close.alive:
            raise ClosedError(
                "this loader was closed; make a new one and load_state_dict() into it"
            )
