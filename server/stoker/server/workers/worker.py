"""A worker computes rows of chunks into slots.

Runs as a fork of the template, with one thread. It reads records from its packet socket in order:
streams, slabs, and work. It decides nothing: the daemon chooses rows, place and time, and the bytes
follow from the StreamSpec. Before each row it stores (claim, row) and the sample in a small shared
page, from which the daemon reads them after its death.
Every error of a sample or a stream goes back as a record; the process ends when its socket closes.
"""

import contextlib
import mmap
import os
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Sequence
from functools import partial

import msgspec
import numpy as np

from stoker.dataset import Dataset, open_dataset
from stoker.dataset.images.jpeg.decoding.choice import (
    change_to_own_decoder,
    choose_decoder,
    wanted_form,
)
from stoker.dataset.images.jpeg.decoding.decoder import load_decoder
from stoker.jit import activity, set_cache_root
from stoker.jit.arithmetic import COMPILED
from stoker.jit.named import EVERY_MODULE, allow_modules
from stoker.pipeline.engine.interface import Engine, Freeze
from stoker.pipeline.planning.bucket_graph import Size
from stoker.protocol.errors import ResourceError, StokerError
from stoker.server.rows.chosen import chosen_of
from stoker.server.rows.clip_samples import samples_of
from stoker.server.rows.field_states import worker_plan
from stoker.server.rows.graphs import graph_from_bytes
from stoker.server.rows.listener import RowListener
from stoker.server.rows.orders import order_parts, stream_order
from stoker.server.rows.row_times import RowTimes
from stoker.server.rows.shared import WorkerForks
from stoker.server.rows.slot_filler import SlotFiller, StreamSource
from stoker.server.work.cuts import Share
from stoker.server.work.work_records import (
    AddSlab,
    BuiltSource,
    CloseStream,
    DecoderNotFound,
    Done,
    DropSlab,
    Failed,
    FromWorker,
    OpenStream,
    ToWorker,
    UseDecoder,
    Work,
    WorkerReady,
)
from stoker.server.workers import channel
from stoker.server.workers.child_config import (
    IDLE,
    PROGRESS,
    PROGRESS_BYTES,
    SAMPLE_AT,
    WorkerConfig,
)
from stoker.server.workers.compute_timer import ComputeTimer
from stoker.server.workers.death import DESCRIPTORS_CLOSED
from stoker.server.workers.engines import EngineMaker, Engines
from stoker.server.workers.failpoints import FailPoints
from stoker.server.workers.hang_trace import HangTrace
from stoker.server.workers.progress_reports import report
from stoker.server.workers.slab_pages import SlabPages
from stoker.server.workers.stage_page import IDLE as IDLE_STAGE
from stoker.server.workers.stage_page import OPENING, OTHER, StagePage
from stoker.server.workers.template import threads
from stoker.server.workers.user_code import Sources, UserCode

_NUMBER = struct.Struct("=q")


class Worker:
    """The streams and slabs that a worker knows, and the work it does on them.

    Attributes:
        engines: those that it keeps.
        stage: shows the daemon what it does.
    """

    def __init__(
        self, config: WorkerConfig, progress: mmap.mmap, lifeline: int | None = None
    ) -> None:
        self._config = config
        self._progress = progress
        self._fail = FailPoints(config.fail_points, config.worker)
        self._datasets: dict[str, Dataset] = {}
        self._streams: dict[int, SlotFiller | Failed] = {}
        self._code_of: dict[int, Sources] = {}
        self._slabs: dict[int, SlabPages | Failed] = {}
        self._forks = WorkerForks()
        self._watch = ComputeTimer()
        self.stage = StagePage(progress)
        self._code = UserCode()
        self._listener = _ProgressPage(progress, self.stage, self._fail, lifeline)
        self.engines = Engines(debug_memory=config.debug_memory, sign=self.stage)

    def close(self) -> None:
        """Close the worker's files."""
        self._watch.close()

    def visit(self, point: str) -> None:
        """Pass a fail point."""
        self._fail.visit(point)

    def handle(self, record: ToWorker, descriptor: int | None) -> FromWorker | None:
        """Handle one record and return the reply, if any."""
        match record:
            case OpenStream():
                self.stage.enter(OPENING)
                return self._open(record)
            case CloseStream():
                self._streams.pop(record.stream, None)
                self._code_of.pop(record.stream, None)
                self._forks.close(record.stream)
            case AddSlab():
                assert descriptor is not None
                self._slabs[record.slab] = _slab(descriptor, record.size_bytes)
            case DropSlab():
                self._slabs.pop(record.slab, None)
            case UseDecoder():
                return _change_decoder(record.form)
            case Work():
                return self._work(record)
        return None

    def _open(self, record: OpenStream) -> Failed | None:
        try:
            self._streams[record.stream] = self._of_built_code(record)
            self._code_of[record.stream] = record.served.code
        except StokerError as error:
            self._streams[record.stream] = failed = Failed(0, record.stream, *error.to_record())
            return failed
        return None

    def _of_built_code(self, record: OpenStream) -> SlotFiller:
        """Return the computer of a stream, which runs the code that the stream was built from.

        Raises:
            StokerError: it cannot be made; or a file was edited after the build.
        """
        if self._code.differing(record.served.code) is not None:
            self._code.forget()
            self._datasets.clear()
            self.engines.forget()
        try:
            computer = self._computer(record)
        except StokerError:
            self._code.require(record.served.code)  # an edit explains the error better
            raise
        self._code.require(record.served.code)
        return computer

    def _dataset(self, path: str, fingerprint: str) -> Dataset:
        dataset = self._datasets.get(path)
        if dataset is None or dataset.fingerprint != fingerprint:
            dataset = self._datasets[path] = open_dataset(
                path, expected=fingerprint, integrity=self._config.integrity
            )
        return dataset

    def _computer(self, record: OpenStream) -> SlotFiller:
        spec, built = record.served.spec, record.served.sources
        sources = [self._source(source, spec.freeze) for source in built]
        datasets = [source.dataset for source in sources]
        selections = [
            chosen_of(dataset, source.selection)
            for dataset, source in zip(datasets, built, strict=True)
        ]
        order = stream_order(
            spec, datasets, selections, parts=order_parts(built) if spec.mix else (),
            buckets=record.served.buckets, arithmetic=COMPILED,
        )  # fmt: skip
        filler = SlotFiller(
            spec, sources, order, Share(record.rank, record.world_size, spec.views),
            arithmetic=COMPILED, params=record.params, listener=self._listener,
            verify=record.verify, shared=self._forks.open(record),
        )  # fmt: skip
        config, rows = self._config, order.firsts[-1]
        filler.home = range(
            rows * config.share // config.shares, rows * (config.share + 1) // config.shares
        )
        return filler

    def _source(self, built: BuiltSource, freeze: Freeze) -> StreamSource:
        """Return a dataset of a stream, and what makes engines of its pipeline."""
        graph = graph_from_bytes(built.graph)
        dataset = samples_of(self._dataset(built.dataset, built.fingerprint), graph)
        of_buckets = EngineMaker(freeze, debug_memory=self._config.debug_memory, sign=self.stage)

        def engine_of(size: Size | None) -> Engine:
            if size is None:
                return self.engines.of(built.dataset, dataset, built.graph, freeze)
            return of_buckets(worker_plan(graph, dataset, size))

        return StreamSource(dataset, engine_of, RowTimes() if self._config.stage_times else None)

    def _work(self, work: Work) -> Done | Failed:
        self.visit("worker.chunk")
        began, decoded = self._watch.read(), self._listener.decoded
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        computer = self._streams[work.stream]
        if isinstance(computer, Failed):
            return msgspec.structs.replace(computer, claim=work.claim)
        slab, end = self._slabs[work.slab], work.offset + work.size_bytes
        if isinstance(slab, Failed):
            return msgspec.structs.replace(slab, claim=work.claim, stream=work.stream)
        self._listener.begin(work.claim, slab)
        self._forks.enter(work)
        try:
            counts = computer.fill(
                slab.memory[work.offset : end],
                work.epoch,
                work.step,
                work.row_lo,
                work.row_hi,
                crashed=work.crashed,
            )
            if self._code.has_grown():  # a function may read more when it is called
                self._code.require(self._code_of[work.stream])
        except StokerError as error:
            self._listener.end()
            return Failed(work.claim, work.stream, *error.to_record())
        self._listener.end()
        self.visit("worker.chunk_done")
        seconds = self._watch.read() - began
        return Done(
            work.claim,
            seconds,
            counts.home_rows,
            counts.replaced_rows,
            counts.invalid_rows,
            shapes=counts.shapes,
            bad=tuple(counts.bad),
            digests=counts.digests,
            decodes=self._listener.decoded - decoded,
            wanted_form=wanted_form(),
            wall_s=time.perf_counter() - wall_s,
            cpu_s=time.process_time() - cpu_s,
            timed=computer.timed(),
        )


def _change_decoder(form: int) -> DecoderNotFound | None:
    """Decode by a form of Stoker's own decoder from now on; if the cache has lost it, as before."""
    if not load_decoder(form):
        return DecoderNotFound()
    change_to_own_decoder(form)
    return None


def _slab(descriptor: int, size_bytes: int) -> SlabPages | Failed:
    """Map a slab and close its descriptor; return the error for its streams if that fails."""
    try:
        return SlabPages(descriptor, size_bytes)
    except (OSError, MemoryError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or "Cannot allocate memory"
        refusal = ResourceError(
            f"a worker cannot map the {size_bytes} bytes of the batches: {reason}; raise the"
            " daemon's limit on address space (ulimit -v) or on maps (vm.max_map_count), or use a"
            " smaller batch size or prefetch",
            needed_bytes=size_bytes,
        )
        return Failed(0, 0, *refusal.to_record())
    finally:
        os.close(descriptor)


class DescriptorsClosedError(Exception):
    """A user's function has closed the worker's socket; nothing can be reported through it."""


class _ProgressPage(RowListener):
    """Writes the row and the sample that are computed next where the daemon reads them.

    Before it does so, it checks that the last one has not closed the worker's socket: then the page
    must go on to name that one. It also has the memory of a claim's rows mapped before they begin.

    Attributes:
        decoded: values that were decoded so far.
    """

    def __init__(
        self, page: mmap.mmap, stage: StagePage, fail: FailPoints, lifeline: int | None
    ) -> None:
        self.decoded = 0
        self._claim = 0
        self._slab: SlabPages | None = None
        self._page = page
        self._stage = stage
        self._fail = fail
        self._lifeline = lifeline
        self._inode = None if lifeline is None else os.fstat(lifeline).st_ino
        self.row_by_row = fail.names("worker.row", "worker.row_done")

    def begin(self, claim: int, slab: SlabPages) -> None:
        """Begin a claim on rows in a slab."""
        self._claim, self._slab = claim, slab
        self._stage.enter(OTHER)

    def end(self) -> None:
        """End it; the page names nothing from now on."""
        self._slab = None
        PROGRESS.pack_into(self._page, 0, *IDLE)

    def rows_begin(self, outputs: Sequence[np.ndarray]) -> None:
        if self._slab is not None:
            self._slab.prepare(outputs)

    def row_begins(self, row: int) -> None:
        self._check()
        PROGRESS.pack_into(self._page, 0, self._claim, row, -1)
        self._fail.visit("worker.row")

    def row_ends(self, row: int) -> None:
        self._check()
        self._fail.visit("worker.row_done")

    def sample_begins(self, sample_id: int) -> None:
        self._check()
        _NUMBER.pack_into(self._page, SAMPLE_AT, sample_id)

    def stage_begins(self, stage: int) -> None:
        self._stage.enter(stage)

    def decode_begins(self) -> None:
        self.decoded += 1

    def _check(self) -> None:
        """Check that the socket is open, and is still the worker's."""
        if self._lifeline is None:
            return
        try:
            if os.fstat(self._lifeline).st_ino == self._inode:
                return
        except OSError:
            pass
        raise DescriptorsClosedError


def serve(sock: socket.socket, number: int) -> int:
    """Run a worker on its socket until the daemon closes it; return the exit code."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    first = channel.receive(sock, WorkerConfig)
    if first is None:
        return 0
    config, page = first
    assert page is not None
    set_cache_root(config.cache_root)
    choose_decoder(config.jpeg)
    allow_modules(EVERY_MODULE)  # a builder has let pass what a worker is given
    progress = mmap.mmap(page, PROGRESS_BYTES)
    PROGRESS.pack_into(progress, 0, *IDLE)
    note = HangTrace(page, progress, config.claim_deadline_s)
    activity.listen(partial(_report, sock, note))
    worker = Worker(config, progress, sock.fileno())
    worker.visit("worker.start")
    if threads() != 1:
        raise RuntimeError(f"a worker starts with one thread, this one has {threads()}")
    try:
        _loop(sock, worker, number, note)
    except (BrokenPipeError, ConnectionResetError):
        return 0
    except DescriptorsClosedError:
        return DESCRIPTORS_CLOSED
    except Exception:
        # Any other error is a bug of Stoker or of a custom op: die loudly, the daemon goes on.
        traceback.print_exc(file=sys.stderr)
        return 1
    finally:
        with contextlib.suppress(OSError):  # a function may have closed them
            worker.close()
    return 0


def _report(sock: socket.socket, note: HangTrace, compiling: bool) -> None:
    """Report that this process compiles, or has ended: then the time of its chunk begins again."""
    report(sock, compiling)
    if not compiling:
        note.begin()


def _loop(sock: socket.socket, worker: Worker, number: int, note: HangTrace) -> None:
    channel.send(sock, WorkerReady(number, os.getpid()))
    while (received := channel.receive(sock, ToWorker)) is not None:
        note.begin()
        answer = worker.handle(*received)
        note.end()
        worker.stage.enter(IDLE_STAGE)
        if answer is not None:
            channel.send(sock, answer)
