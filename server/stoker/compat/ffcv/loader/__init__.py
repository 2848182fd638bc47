"""`Loader`: batches of a Stoker dataset through FFCV's pipelines, in the script's process.

The order is Stoker's (docs/contracts/order.md), and a row's draws belong to (stream, seed, epoch,
sample id), so an epoch has the same bytes for any number of workers. One thread runs ahead by
`batches_ahead` batches; `num_workers` threads decode for it. A batch belongs to the script for as
long as the script holds it.
"""

from __future__ import annotations

import enum
import os
import queue
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np

from stoker.compat.ffcv.batch_rows import BatchRows
from stoker.compat.ffcv.field_pipeline import Begun, FieldPipeline, LoaderSource
from stoker.compat.ffcv.loader.loader_orders import LoaderOrder, OptionOrder, ScriptOrder
from stoker.compat.ffcv.loader.named_pipelines import named_pipelines
from stoker.compat.ffcv.operation_settings import settings
from stoker.compat.ffcv.operation_streams import OperationStreams
from stoker.compat.ffcv.pipeline.compiler import Compiler
from stoker.compat.ffcv.traversal_order import QuasiRandom, Random, Sequential, TraversalOrder
from stoker.dataset import open_dataset
from stoker.protocol.canonical import canonical_digest
from stoker.protocol.errors import UsageError
from stoker.protocol.spec import OrderSpec, StreamSpec
from stoker.server.settings.cgroup import cores

BLOCK: Final = 4096
"""Block of samples that `QUASI_RANDOM` keeps together."""


class OrderOption(enum.Enum):
    """The order of an epoch."""

    SEQUENTIAL = "sequential"
    RANDOM = "random"
    QUASI_RANDOM = "quasi_random"


_OPTIONS: Final[dict[type, OrderOption]] = {
    Sequential: OrderOption.SEQUENTIAL,
    Random: OrderOption.RANDOM,
    QuasiRandom: OrderOption.QUASI_RANDOM,
}


class Loader:
    """Iterates over a dataset: each `iter()` is the next epoch; a batch is a tuple by field.

    Args:
        fname: a Stoker dataset: its folder, or the file that `DatasetWriter` wrote next to it.
        batch_size: rows of a batch, per rank.
        num_workers: threads; -1 for one per core, which is also the maximum: threads that share a
            core spin against each other.
        os_cache: has no effect here: files are mapped.
        order: the order of an epoch: an `OrderOption`, or a `TraversalOrder` class of the script.
        distributed: whether this process is a rank of a torch.distributed job and gets its part.
        seed: seed of order and draws; None: a random one, see the attribute `seed`.
        indices: the samples to use; by default all.
        pipelines: field -> list of operations; a field with None is left out, a field that is not
            named is decoded to a tensor. Other names have a `PipelineSpec`, and come after the
            fields.
        custom_fields: must be empty: the dataset already has its fields.
        drop_last: leave out the last batch if it is not full.
        batches_ahead: how many batches are computed ahead of use.
        recompile: has no effect here.

    The operations' attributes may be set between epochs, and the lists in `pipelines` changed: the
    next `iter()` builds the pipelines again and uses the new values. A running epoch keeps its own.

    Attributes:
        next_epoch: the epoch that the next `iter()` delivers.

    Raises:
        UsageError: an argument is wrong.
        BuildError: a pipeline cannot run; names field, operation and line.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - FFCV's arguments
        self,
        fname: str | os.PathLike[str],
        batch_size: int,
        num_workers: int = -1,
        os_cache: bool = True,
        order: OrderOption | Callable[[Any], TraversalOrder] = OrderOption.SEQUENTIAL,
        distributed: bool = False,
        seed: int | None = None,
        indices: Sequence[int] | None = None,
        pipelines: Mapping[str, Sequence[Any] | None] | None = None,
        custom_fields: Mapping[str, Any] | None = None,
        drop_last: bool = True,
        batches_ahead: int = 3,
        recompile: bool = False,
    ) -> None:
        if custom_fields:
            raise UsageError(
                "custom_fields: expected none, because a Stoker dataset has its own fields; leave "
                "it out"
            )
        if distributed and not drop_last:
            raise UsageError(
                "distributed: expected drop_last=True, so that all ranks have the same number of "
                "batches"
            )
        if batch_size < 1 or batches_ahead < 1:
            raise UsageError(
                "expected batch_size and batches_ahead from 1, got "
                f"batch_size={batch_size}, batches_ahead={batches_ahead}"
            )
        self._seed = secrets.randbits(32) if seed is None else seed
        self.next_epoch = 0
        self._dataset = open_dataset(fname)
        self._chosen = _chosen(len(self._dataset), indices)
        available, _ = cores()
        self._workers = min(num_workers, available) if num_workers > 0 else available
        self._ahead = batches_ahead
        self._distributed = distributed
        self._rank, self._ranks = _rank_of_job() if distributed else (0, 1)
        self._pipelines = {} if pipelines is None else pipelines
        self._lines = self._build()
        self._settings = settings(self._pipelines)
        self._batch_size, self._drop_last = batch_size, drop_last
        self._order = self._order_of(order)

    def __len__(self) -> int:
        """Return the number of batches of the next epoch."""
        return self._order.steps(self.next_epoch)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Deliver the next epoch, with the attributes that the operations have now.

        Raises:
            BuildError: an attribute was changed to a value that cannot run.
        """
        now = settings(self._pipelines)
        if now != self._settings:
            self._lines, self._settings = self._build(), now
        epoch = self.next_epoch
        steps = self._order.steps(epoch)
        self.next_epoch += 1
        return _RunningEpoch(self, self._order.running(epoch), steps, self._lines).batches()

    def __setattr__(self, name: str, value: Any) -> None:
        """Set `next_epoch`; anything else would have no effect.

        Raises:
            UsageError: another public attribute is set.
        """
        if name != "next_epoch" and not name.startswith("_"):
            raise UsageError(
                f"Loader.{name} cannot be set: a loader keeps its arguments. Set attributes of its "
                "decoders and operations, which take effect at the next epoch, or build a new "
                f"Loader({name}=...)"
            )
        super().__setattr__(name, value)

    @property
    def seed(self) -> int:
        """The seed of order and draws."""
        return self._seed

    def begin(
        self, lines: Sequence[FieldPipeline], rows: BatchRows, threads: ThreadPoolExecutor
    ) -> tuple[BatchRows, list[Begun]]:
        """Start to read one batch of this rank in threads; returns at once."""
        return rows, [line.begin(rows, threads, self._workers) for line in lines]

    @property
    def batch_size(self) -> int:
        """Rows of a batch of this rank."""
        return self._batch_size

    @property
    def indices(self) -> np.ndarray:
        """(n,) int64, ids of the samples to use."""
        return self._chosen

    @property
    def distributed(self) -> bool:
        """True for the loader of one rank."""
        return self._distributed

    def ordered(self, name: str, epoch: int) -> np.ndarray:
        """Return the ids of an epoch, of this rank, in one of Stoker's orders.

        Args:
            name: value of an `OrderOption`.
            epoch: from 0.
        """
        return self._stream_order(OrderOption(name)).ids(epoch)

    @property
    def workers(self) -> int:
        """Number of threads that decode."""
        return self._workers

    @property
    def batches_ahead(self) -> int:
        """Number of batches that are computed ahead of use."""
        return self._ahead

    def _order_of(self, order: Any) -> LoaderOrder:
        option = _OPTIONS.get(order, order) if isinstance(order, type) else order
        if isinstance(option, OrderOption):
            return self._stream_order(option)
        is_other = isinstance(option, type) and not issubclass(option, TraversalOrder)
        made = option(self) if callable(option) and not is_other else option
        if not isinstance(made, TraversalOrder):
            raise UsageError(
                "order: expected an OrderOption, or a class that inherits from TraversalOrder, "
                f"got {order!r}"
            )
        return ScriptOrder(made, len(self._dataset), self._batch_size, drop_last=self._drop_last)

    def _stream_order(self, option: OrderOption) -> OptionOrder:
        spec = StreamSpec(
            dataset=self._dataset.fingerprint,
            dataset_rows=len(self._chosen),
            pipeline=canonical_digest([line.field for line in self._lines]),
            batch_size=self._batch_size * self._ranks,
            order=OrderSpec(
                shuffle=option is not OrderOption.SEQUENTIAL,
                block=BLOCK if option is OrderOption.QUASI_RANDOM else None,
            ),
            tail="drop" if self._drop_last else "pad",
            seed=self._seed,
        )
        return OptionOrder(spec, self._chosen, self._rank, self._ranks)

    def _build(self) -> list[FieldPipeline]:
        fields = {field.name: field for field in self._dataset.schema.fields}
        source = LoaderSource(self._dataset, self._chosen)
        streams, copies = OperationStreams(), dict[int, tuple[Any, Any]]()
        lines = [
            FieldPipeline(source, fields[read], operations, streams, copies, name)
            for name, read, operations in named_pipelines(self._pipelines, fields)
        ]
        streams.check()
        return lines


class _RunningEpoch:
    """One running epoch: a thread computes batches and passes them on in order."""

    def __init__(
        self,
        loader: Loader,
        rows: Callable[[int], BatchRows],
        steps: int,
        lines: Sequence[FieldPipeline],
    ) -> None:
        self._loader = loader
        self._steps = steps
        self._lines = lines
        self._rows = rows
        self._ready: queue.Queue[Any] = queue.Queue(loader.batches_ahead)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._produce, name="ffcv-loader", daemon=True)

    def batches(self) -> Iterator[tuple[Any, ...]]:
        self._thread.start()
        try:
            for _ in range(self._steps):
                item = self._ready.get()
                if isinstance(item, BaseException):
                    raise item
                rows, values = item
                pairs = zip(self._lines, values, strict=True)
                batch = tuple(line.finish(value, rows) for line, value in pairs)
                del item, values, pairs
                yield batch
                del batch
        finally:
            self._stop.set()
            while self._thread.is_alive():
                try:
                    self._ready.get(timeout=0.01)
                except queue.Empty:
                    self._thread.join(0.01)

    def _produce(self) -> None:
        with ThreadPoolExecutor(self._loader.workers, "ffcv-decode") as threads:
            item: Any
            try:
                Compiler.set_num_threads(self._loader.workers)
                for item in self._computed(threads):
                    self._ready.put(item)
                    if self._stop.is_set():
                        return
                    del item
            except BaseException as error:  # raised again in the script's thread
                self._ready.put(error)

    def _computed(self, threads: ThreadPoolExecutor) -> Iterator[tuple[BatchRows, list[Any]]]:
        """Yield batches; while one is computed, the next one is read."""
        if self._steps:
            begun = self._loader.begin(self._lines, self._rows(0), threads)
        for step in range(self._steps):
            rows, parts = begun
            if step + 1 < self._steps:
                begun = self._loader.begin(self._lines, self._rows(step + 1), threads)
            pairs = zip(self._lines, parts, strict=True)
            yield rows, [line.batch(part, rows) for line, part in pairs]
            del parts, pairs


def _chosen(count: int, indices: Sequence[int] | None) -> np.ndarray:
    """Return the ids of the samples to use, int64.

    Raises:
        UsageError: the list is empty, or an id is not in the dataset.
    """
    if indices is None:
        return np.arange(count)
    chosen = np.asarray(indices)
    if not len(chosen) or chosen.min() < 0 or chosen.max() >= count:
        got = f"{chosen.min()} to {chosen.max()}" if len(chosen) else "none"
        raise UsageError(f"indices: expected ids from 0 to {count - 1}, got {got}")
    return chosen.astype(np.int64)


def _rank_of_job() -> tuple[int, int]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_initialized():
        raise UsageError(
            "distributed=True: torch.distributed is not initialized in this process: call "
            "torch.distributed.init_process_group before this, or leave distributed out"
        )
    return torch.distributed.get_rank(), torch.distributed.get_world_size()
