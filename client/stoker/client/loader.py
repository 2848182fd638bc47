"""`Loader`: iterate over the batches of a stream, epoch by epoch; save and resume.

It runs in the training process, in one thread at a time. The constructor opens the stream, so every
wrong argument raises there. `Position` holds its place in the stream.
"""

import inspect
import logging
import os
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, NoReturn, Self, Unpack, overload

from stoker.client.argument_types import EvaluationArguments, Item, LoaderArguments, Samples
from stoker.client.batch_sampler import EpochSampler, Steps, only
from stoker.client.batches.batch import Batch, BatchOrigin, ReadMarks
from stoker.client.batches.loop_items import LoopItems
from stoker.client.batches.short_batch import first_rows, real_rows
from stoker.client.device import Target
from stoker.client.device_modules import Modules
from stoker.client.epoch_iterator import EpochIterator
from stoker.client.foreign_arguments import refuse_unknown
from stoker.client.hosts.connecting import Where, connect
from stoker.client.hosts.fleet import changeable
from stoker.client.last_batch import PaddingWarning, resolve_last
from stoker.client.loader_place import Resuming
from stoker.client.loader_samples import SampleSequence, by_name, samples_in_words
from stoker.client.loader_statistics import Statistics
from stoker.client.loop_pace import LoopPace
from stoker.client.loop_verdict import LoopVerdict, StreamFacts, judge
from stoker.client.opened_stream import account_of, batch_names, steps_of
from stoker.client.options.argument_records import Connection, Group, Shuffle, shuffle_options
from stoker.client.options.delivery_options import (
    OPEN_REQUEST,
    check_request,
    connection_of,
    delivery_of,
)
from stoker.client.position import Position
from stoker.client.progress import is_shown
from stoker.client.ranks.call_site import CallSite
from stoker.client.ranks.launcher import job_key
from stoker.client.ranks.rank_numbers import resolve_ranks
from stoker.client.ranks.rank_streams import RankStreams
from stoker.client.row_replays import RowReplays
from stoker.client.side_socket import forked_error
from stoker.client.verifying import SessionChain
from stoker.protocol.accounts import EpochAccount
from stoker.protocol.errors import ClosedError, UsageError
from stoker.protocol.length_buckets import LengthBuckets
from stoker.protocol.messages import Open, Status
from stoker.protocol.replayed_row import Replay
from stoker.protocol.request.argument_checks import label_of, within
from stoker.protocol.request.stream_arguments import stream_request
from stoker.protocol.size_buckets import Buckets

_log = logging.getLogger("stoker.client")
_verdicts = logging.getLogger("stoker.client.verdict")
_FIXED = {"drop_last", "last", "mix", "shuffle", "weights"}


class Loader(Resuming, Generic[Item]):
    """Batches of a dataset through a pipeline, from a daemon on this host or another.

    Iterating yields `Batch` objects: mappings by output name (and attributes) of torch tensors or
    NumPy arrays of shape (rows, ...), plus `index`, `requested`, `valid`, `epoch` and `step`.
    Each `iter()` is the next epoch. One iterator at a time; one thread at a time.

    Args:
        address_or_path: `ipc:///dir/stoker.sock`, or `tcp://host:port`, or a list of them, whose
            daemons share the work, or a `Directory` of them; or the path of a packed dataset, of
            tar or Arrow files to read in place, or the `module:Class` of a live source. With a path
            a private daemon starts, for all local ranks of one job; it ends with its last client.
        dataset: name of the dataset at the daemon; may be omitted if the daemon has only one, and
            must be omitted with a path.
        mix: several datasets in one stream, name at the daemon -> ratio; see `mixture`.
        pipeline: name of a pipeline at the daemon; with a path, `"module:attribute"`; or a pipeline
            object of `stoker.pipeline`; with `mix` one for all, or name of a dataset -> pipeline.
        batch_size: positions per rank in a batch; the global batch is batch_size * world_size.
        global_batch_size: positions in a batch over all ranks. Give exactly one of the two.
        seed: seed of the shuffle and of every draw, 0 to 2**64 - 1.
        shuffle: whether each epoch has its own order; or a `Shuffle`, for a seed of the order, or
            blocks of neighboring samples.
        drop_last: whether an incomplete last batch is dropped; see `last`.
        last: what becomes of an incomplete last batch: "drop", "short" (it has fewer rows; on one
            rank only), or "pad" (rows that are not `valid` fill it). None follows `drop_last`:
            "drop", or for False "short" on one rank and "pad" on several.
        rank: this process's rank; None (with world_size None) asks `torch.distributed`.
        world_size: number of ranks.
        device: "cpu" (torch tensors, or NumPy arrays if torch is not installed), "numpy", or
            "cuda[:number]".
        on_device: objects of `torch.nn.Module` that change the images after the transfer, in order,
            on the device and stream of the transfer; or output -> such a list. They are moved to
            the device, and are no part of the stream.
        prefetch: number of batches that the daemon prepares ahead. None lets it choose 2 to 16:
            enough for 256 rows a worker, but no more than 512 MiB hold with those that you hold.
        group: name of a group: loaders of one stream share batches, each computed once;
            or a `Group`, for its size, or to share decoded samples alone.
        on_error: what happens to a sample that cannot be used: "raise", "replace" or "mask".
        exclude: samples to leave out: ids, or the path of a file that lists them, one per line,
            such as a quarantine file of the daemon; with `mix` name of a dataset -> samples.
        subset: the only samples to visit: a split of the dataset, such as "train", a condition on
            its columns, such as "width >= 256", or ids or a file as for `exclude`, each id once
            (with `shuffle=False` ascending); with `mix` one split or condition for all, or name of
            a dataset -> samples.
        weights: how often each sample comes: one number per sample (an array, or a file), the name
            of a numeric field, or {class: weight}; with `mix` one field for all, or name of a
            dataset -> weights. Batches then have `drawn_as`, as with buckets.
        views: rows per position, each with its own draws.
        freeze: draws that stay the same, by stream name: the integer that replaces (id, epoch,
            visit, view), or "epoch" to fix only the epoch.
        total_epochs: length of schedules, for pipelines that read it.
        workers: worker processes of a private daemon; None lets the daemon count the processors.
        buckets: batches of one size each, chosen by the size of each image, or batches of sequences
            of similar length; see `Buckets` and `LengthBuckets`. Every batch then has an output
            `drawn_as`: (rows, 3) int64, the epoch, visit and view that each row draws with.
        params: whether every batch has its draw records, as `batch.params`.
        as_tuple: names of outputs; every batch is then a tuple of them, as in
            `for images, labels in loader`.
        as_dict: names of outputs, such as the arguments of a model, or True for all entries; every
            batch is then a plain dict of them, as in `model(**batch)`.
        verify: whether each batch must have the digests that its workers computed (`Batch.digest`).
        name: what the daemon's log calls this loader, such as "run-17": 1 to 64 printable
            characters.
        connection: time limits, how long to wait for a lost daemon, and keys; see `Connection`.

    Raises:
        UsageError: an argument is wrong; the message says which one and what is expected.
        ConnectError: no daemon listens at the address, or (`AccessError`) it refuses this client.
        DatasetError: the dataset is missing or cannot be read.
        StokerError: the daemon refuses; it sent the error.
    """

    prefetch_factor: None = None
    """Read by tools that make a DataLoader; without workers in this process it must be None."""

    @overload
    def __init__(
        self: "Loader[Batch]", address_or_path: Where, *, as_tuple: None = None,
        as_dict: Literal[False] | None = None, **options: Unpack[LoaderArguments],
    ) -> None: ...  # fmt: skip

    @overload
    def __init__(
        self: "Loader[tuple[Any, ...]]", address_or_path: Where, *, as_tuple: Sequence[str],
        as_dict: Literal[False] | None = None, **options: Unpack[LoaderArguments],
    ) -> None: ...  # fmt: skip

    @overload
    def __init__(
        self: "Loader[dict[str, Any]]", address_or_path: Where, *, as_tuple: None = None,
        as_dict: Literal[True] | Sequence[str], **options: Unpack[LoaderArguments],
    ) -> None: ...  # fmt: skip

    def __init__(  # noqa: PLR0913  (each is one decision of the user, all but one by keyword)
        self,
        address_or_path: Where,
        *,
        dataset: str | None = None,
        mix: Mapping[str, float] | None = None,
        pipeline: object,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        seed: int = 0,
        shuffle: bool | Shuffle = True,
        drop_last: bool = True,
        last: str | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        device: object = "cpu",
        on_device: Modules | None = None,
        prefetch: int | None = None,
        group: str | Group | None = None,
        on_error: str = "raise",
        exclude: Samples | Mapping[str, Samples] | None = None,
        subset: Samples | Mapping[str, Samples] | None = None,
        weights: object = None,
        views: int = 1,
        freeze: Mapping[str, int | str] | None = None,
        total_epochs: int | None = None,
        workers: int | None = None,
        buckets: Buckets | LengthBuckets | None = None,
        params: bool = False,
        as_tuple: Sequence[str] | None = None,
        as_dict: bool | Sequence[str] | None = None,
        verify: bool = False,
        name: str | None = None,
        connection: Connection | None = None,
        **unknown: object,
    ) -> None:
        refuse_unknown(unknown, inspect.signature(Loader).parameters)
        chosen = rank is not None
        rank, world_size = resolve_ranks(rank, world_size)
        last = resolve_last(last, drop_last, world_size)
        self._rank, self._world_size = rank, world_size
        self._short = last == "short"
        self._padding = PaddingWarning()
        items = LoopItems(as_tuple, as_dict)
        self._pid = os.getpid()
        kind = f"{'chosen' if chosen else 'known'} ranks, {world_size}"
        with CallSite(kind, rank) as place:
            target = Target(device, on_device)
            options = {
                "mix": mix, "batch_size": batch_size, "global_batch_size": global_batch_size,
                "seed": seed, **shuffle_options(shuffle), "drop_last": last == "drop",
                "on_error": on_error, "exclude": exclude, "subset": subset, "weights": weights,
                "views": views, "freeze": freeze, "total_epochs": total_epochs, "buckets": buckets,
                "params": params,
            }  # fmt: skip
            stream = stream_request(dataset, pipeline, options, world_size)
            self._params = stream.params
            delivery = delivery_of(
                prefetch, target.leases, verify=verify, group=group,
                progress=rank == 0 and is_shown(),
            )  # fmt: skip
            check_request(stream, delivery, world_size, last)
            job = job_key(place, world_size) if chosen else b""
            request = Open(OPEN_REQUEST, stream, delivery, rank, world_size, job)
            self._connection = connect(
                address_or_path, request, target, connection_of(connection), workers,
                label_of("name", name),
            )  # fmt: skip
        self._close = weakref.finalize(self, self._connection.close)
        self._turn = 0
        self._crashed = self._connection.crashed
        self._spec = self._connection.stream.spec
        self._opened = self._connection.stream.opened
        self._steps = steps_of(self._opened)
        self._position = Position(self._steps)
        self._replays = RowReplays(self._connection, self._opened, self._spec)
        self._chain = SessionChain(self._spec.stream_id)
        self._pace = LoopPace(self._waited_s)
        self._facts = StreamFacts(
            [source.dataset for source in stream.sources],
            [source.pipeline for source in stream.sources],
            world_size, self._connection.is_remote, target.is_cuda, bool(on_device), verify,
        )  # fmt: skip
        self._accounts_told = rank == 0 and bool(self._opened.buckets)
        try:
            self._received = items.of(batch_names(self._opened))
            self._others = None if chosen else RankStreams(self._spec, rank, world_size, place)
        except BaseException:
            self._close()
            raise

    @overload
    @classmethod
    def for_evaluation(
        cls, address_or_path: Where, *, as_tuple: None = None,
        as_dict: Literal[False] | None = None, **options: Unpack[EvaluationArguments],
    ) -> "Loader[Batch]": ...  # fmt: skip

    @overload
    @classmethod
    def for_evaluation(
        cls, address_or_path: Where, *, as_tuple: Sequence[str],
        as_dict: Literal[False] | None = None, **options: Unpack[EvaluationArguments],
    ) -> "Loader[tuple[Any, ...]]": ...  # fmt: skip

    @overload
    @classmethod
    def for_evaluation(
        cls, address_or_path: Where, *, as_tuple: None = None,
        as_dict: Literal[True] | Sequence[str], **options: Unpack[EvaluationArguments],
    ) -> "Loader[dict[str, Any]]": ...  # fmt: skip

    @classmethod
    def for_evaluation(cls, address_or_path: Where, **options: Any) -> "Loader[Any]":
        """Return a loader for validation: every sample once, in the order of the dataset.

        Every loop is epoch 0, so random ops draw the same each time. On one rank the last batch is
        short; on several ranks it is padded, and `batch.valid` says which rows count.

        Args:
            address_or_path: as for `Loader`.
            options: as for `Loader`, except those of the order and the last batch.

        Raises:
            UsageError: an option is one of them.
        """
        fixed = sorted(_FIXED & options.keys())
        if fixed:
            raise UsageError(
                f"Loader.for_evaluation: {fixed[0]}= cannot be chosen: it reads every sample once, "
                "in order; use Loader for other orders"
            )
        made: Loader[Any] = cls(address_or_path, shuffle=False, drop_last=False, **options)
        made._position.repeats = True
        return made

    def __iter__(self) -> EpochIterator[Item]:
        """Return an iterator over the next epoch, or from the place that was loaded or set.

        The epoch begins at the first `next()`, which ends older iterators.

        Raises:
            ClosedError: the loader was closed.
            UsageError: this process was forked from the one that made the loader.
        """
        self._check_usable()
        return EpochIterator(self._begin, self._next, self._tell)

    def _begin(self) -> int:
        """Begin an epoch; return the number of the turn."""
        self._check_usable()
        self._padding.check()
        if self._others is not None:
            self._others.check()
        place = self._position.begin()
        self._turn += 1
        self._pace = LoopPace(self._waited_s)
        total = self.spec.total_epochs
        if total is not None and place.epoch >= total:
            warnings.warn(
                f"epoch {place.epoch} is past the last one of total_epochs={total}: schedules stay "
                "at their end; pass the length of the whole training as total_epochs",
                stacklevel=4,
            )
        return self._turn

    def close(self) -> None:
        """End the session; delivered tensors stay valid. A second call does nothing."""
        self._padding.check()
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def batch_size(self) -> int:
        """Positions of this rank in a batch; rows are `spec.views` times as many."""
        return self._opened.rows // self.spec.views

    @property
    def num_workers(self) -> int:
        """Always 0: the worker processes belong to the daemon, not to this process."""
        return 0

    @property
    def dataset(self) -> SampleSequence:
        """The samples of the stream as they are stored, by place, and their classes."""
        return SampleSequence(self.spec, self._opened.classes, self._stored)

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
            lambda: self._position.left, self.__iter__, self.skip, set_epoch,
            batch_size=self.batch_size, drop_last=self.drop_last,
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
        found = self.replay(sample_id, epoch)
        return by_name(found.outputs, f"Outputs of sample {found.id} in epoch {found.epoch}")

    def statistics(self) -> Statistics:
        """Return the loader's counters; after `close()`, their values at that moment."""
        return self._connection.statistics()

    def verdict(self) -> LoopVerdict:
        """Return what bounds the loop over this epoch, or the last one; as text, one line.

        It says which part of the loop waited for batches, what for, and what to change. At the end
        of each epoch rank 0 also logs it, as `stoker.client.verdict` at level INFO.
        """
        self._check_usable()
        return self._judged(self._connection.status())

    def _judged(self, status: Status | None) -> LoopVerdict:
        self._pace.measure()
        return judge(self._pace, self._facts, status)

    def _waited_s(self) -> float:
        return self._connection.statistics().wait_s

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

    def _repr_html_(self) -> str:
        """Return what notebooks show: its stream, its verdict, and a link to its daemon's page."""
        from stoker.client.loader_html import loader_html  # noqa: PLC0415 - for notebooks alone

        is_open = self._close.alive and os.getpid() == self._pid
        status = self._connection.status() if is_open else None
        verdict = self._judged(status) if is_open else None
        page = "" if status is None else status.page
        return loader_html(repr(self), verdict, page, is_remote=self._connection.is_remote)

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
        changeable(self._connection).set_hosts(addresses)

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
        return self._replays.stored(place)

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
        return self._replays.of_sample(sample_id, epoch, visit, view)

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
        self._check_usable()
        return self._replays.of_row(batch, row)

    def _next(self, turn: int) -> Any:
        self._pace.called()
        self._check_usable()
        if turn != self._turn:
            raise ClosedError(
                "this iterator ended when the loader was iterated again; a loader has only one "
                "iterator at a time, so make a second Loader for a second loop"
            )
        place = self._position.wanted()
        if place is None:
            self._connection.release()
            return None
        arrays, drawn, digest = self._connection.take(place.epoch, place.step)
        digests = self._chain.seal(place.epoch, place.step, digest)
        padded = self.spec.tail == "pad" and (
            place.step == self._steps(place.epoch) - 1 or self.spec.buckets is not None
        )
        if drawn is None and self._params:
            drawn = {}
        if padded and self._short:
            rows = real_rows(arrays)
            arrays = first_rows(arrays, rows)
            drawn = None if drawn is None else first_rows(drawn, rows)
        marks = ReadMarks()
        batch = Batch(
            arrays, BatchOrigin(place.epoch, place.step, self._spec, drawn, digests, marks)
        )
        if padded and not self._short:
            self._padding.watch(batch, marks)
        self._connection.delivered += 1
        self._chain.delivered(digests)
        self._position.delivered()
        self._pace.returns(self._opened.rows)
        return self._received(batch)

    def _tell(self) -> None:
        """Log the account of the epoch that has just ended, and the verdict on its loop."""
        if self._rank == 0 and _verdicts.isEnabledFor(logging.INFO):
            _verdicts.info("%s", self.verdict())
        if self._accounts_told:
            _log.info("%s", self.account(self._position.running.epoch))

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise forked_error(self._pid)
        if not self._close.alive:
            raise ClosedError(
                "this loader was closed; make a new one and load_state_dict() into it"
            )
