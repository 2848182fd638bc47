"""Streams: compose the StreamSpec from a request and a build; the state of a served stream.

A stream may be served to several groups (the ranks of one job, the jobs of a sweep). They share its
speed estimate, and the record of deaths: a row that kills two workers stops the stream for all.
"""

from collections import OrderedDict
from dataclasses import dataclass
from math import ceil, inf, sqrt

import msgspec

from stoker.order.buckets.turns import BucketTurns
from stoker.order.rank_rows import steps_per_epoch
from stoker.protocol.chain import MAX_VERIFIED_ROWS
from stoker.protocol.cursor import MAX_CRASHED
from stoker.protocol.errors import UsageError
from stoker.protocol.exclude import Excluded
from stoker.protocol.messages import Open
from stoker.protocol.request.option_refusals import Asked, check_combination
from stoker.protocol.request.stream_request import Selection, StreamRequest
from stoker.protocol.spec import OrderSpec, StreamSpec
from stoker.server.state.rank_steps import RankSteps
from stoker.server.state.settings import Settings
from stoker.server.work.cuts import RankCut, Share, batch_outputs
from stoker.server.work.suggestions import resolve
from stoker.server.work.work_records import BuildResult, ServedStream

MAX_SUSPECTS = 1024
SPEED_WEIGHT = 0.25
SPREAD_WEIGHTS = (1 / 16, 1 / 64)
SETTLED_CHUNKS = 64
MOST_CUTS = 4
PROBE_ROWS = 4

RowPlace = tuple[int, int, int]
"""(epoch, step, row of the global batch)."""


@dataclass
class Suspect:
    """A row at which workers died, and the sample that they read for it, if known.

    Attributes:
        sample: the sample.
        blamed: deaths that point to the row.
        unblamed: deaths that say nothing about it.
        hung_at: when a worker last hung at it.
    """

    sample: int | None = None
    blamed: int = 0
    unblamed: int = 0
    hung_at: float = -inf


class Stream:
    """One stream, served to one or more groups.

    Attributes:
        stream_id: its id, 32 hex digits.
        spec: its StreamSpec.
        build: the result that it was built from.
        groups: number of groups that it is served to.
        row_s: moving average of the seconds per row; 0 until the first chunk is done.
        least_rows: the least rows in a chunk; ceil(min_chunk_s / row_s), or `chunk_rows` of the
            settings, as `most_rows`.
        brief_rows: the rows of a chunk if rows cost little; otherwise 0.
        cuts: into how many chunks a worker's share of a step is cut: the standard deviation of the
            cost of a row divided by the mean, from 1 to `MOST_CUTS`. When a few rows dominate the
            cost, chunks are cut smaller, so that few rows queue behind a slow one. Both are
            averages over many chunks, because few contain a slow row; over fewer at the start, when
            rows cost more than later.
        most_rows: the most rows in a chunk. They cost a quarter of the claim deadline, so that a
            slow pipeline does not count as hanging; `PROBE_ROWS` while the cost is unknown.
        bad: ids of samples that could not be used.
        crashed: samples that crashed workers and are replaced: id -> first (epoch, step) of that.
        deaths: workers in a row that died at its chunks, for any reason; 0 once one is done.
    """

    __slots__ = (
        "_chunks", "_mean_s", "_settings", "_spread", "bad", "brief_rows", "build", "crashed",
        "cuts", "deaths", "groups", "least_rows", "most_rows", "row_s", "spec", "stream_id",
        "suspects",
    )  # fmt: skip

    def __init__(
        self, settings: Settings, stream_id: str, spec: StreamSpec, build: BuildResult
    ) -> None:
        self._settings = settings
        self.least_rows = settings.chunk_rows or 1
        self.brief_rows = 0
        self.most_rows = settings.chunk_rows or PROBE_ROWS
        self.stream_id = stream_id
        self.spec = spec
        self.build = build
        self.groups = 0
        self.deaths = 0
        self.row_s = 0.0
        self.cuts = 1
        self._chunks = 0
        self._mean_s = self._spread = 0.0
        self.bad: set[int] = set()
        self.crashed: dict[int, tuple[int, int]] = {}
        self.suspects: OrderedDict[RowPlace, Suspect] = OrderedDict()

    def measure(self, seconds: float, rows: int, *, eased: bool = False) -> None:
        """Add the cost of a chunk to the averages; an implausible cost is ignored.

        A chunk was eased if another stream of a fork had decoded its samples. It costs less than
        others, so it counts only while no others are known.
        """
        row_s = seconds / rows
        if not 1e-12 < row_s < 1e9 or (eased and self._chunks):
            return
        if not eased:
            self._note_spread(row_s, rows)
        self.row_s += (row_s - self.row_s) * (SPEED_WEIGHT if self.row_s else 1.0)
        settings = self._settings
        if settings.chunk_rows:
            return
        self.least_rows = ceil(settings.min_chunk_s / self.row_s)
        brief = self.row_s < settings.brief_row_s
        self.brief_rows = ceil(settings.brief_chunk_s / self.row_s) if brief else 0
        self.most_rows = max(1, int(settings.claim_deadline_s / 4 / self.row_s))

    def _note_spread(self, row_s: float, rows: int) -> None:
        self._chunks += 1
        weight = SPREAD_WEIGHTS[self._chunks > SETTLED_CHUNKS]
        self._mean_s += (row_s - self._mean_s) * (weight if self._mean_s else 1.0)
        off = row_s - self._mean_s
        self._spread += (off * off * rows - self._spread) * weight
        self.cuts = min(max(round(sqrt(self._spread) / self._mean_s), 1), MOST_CUTS)

    @property
    def uneven_s(self) -> float:
        """The average seconds per row if a few rows cost much more; otherwise 0."""
        return self.row_s if self.cuts > 1 and not self.brief_rows else 0.0

    def is_brief(self, rows: int) -> bool:
        """Return whether a batch of this many rows is so cheap that its messages matter."""
        return self.brief_rows > 0 and self.row_s * rows < self._settings.brief_batch_s

    def accuse(
        self, row: RowPlace, blame: bool, sample: int | None = None, hung_at: float = -inf
    ) -> tuple[int, int]:
        """Count a death at (epoch, step, row), where a worker read a sample, if that is known.

        Returns:
            The deaths with blame at any row of the sample, and those without at this row.
        """
        suspect = self.suspects.setdefault(row, Suspect())
        suspect.sample = suspect.sample if sample is None else sample
        suspect.blamed += blame
        suspect.unblamed += not blame
        suspect.hung_at = max(suspect.hung_at, hung_at)
        if len(self.suspects) > MAX_SUSPECTS:
            self.suspects.popitem(last=False)
        others = [one.blamed for one in self._at_sample(sample) if one is not suspect]
        return suspect.blamed + sum(others), suspect.unblamed

    def points_to(self, sample: int, row: RowPlace, since: float) -> bool:
        """Return whether a hang points to a sample, even if all workers hung.

        A worker has hung at another row of the sample since that time, or the sample is blamed
        already. Workers that freeze together are at samples of their own.
        """
        here = self.suspects.get(row)
        return any(
            one.blamed or (one is not here and one.hung_at >= since)
            for one in self._at_sample(sample)
        )

    def _at_sample(self, sample: int | None) -> list[Suspect]:
        if sample is None:
            return []
        return [one for one in self.suspects.values() if one.sample == sample]

    def check_crashed(self, crashed: list[int]) -> None:
        """Check the samples that a cursor lists as replaced, because they crashed workers.

        Raises:
            UsageError: there are too many, or one is not in the dataset.
        """
        rows, all_of_them = self.spec.dataset_rows, self.crashed.keys() | crashed
        if any(number >= rows for number in crashed):
            raise UsageError(f"SEEK: crashed: expected ids from 0 to {rows - 1}, got {crashed}")
        if len(all_of_them) > MAX_CRASHED:
            raise UsageError(
                f"SEEK: crashed: at most {MAX_CRASHED} samples of a stream can be replaced, this"
                f" would be {len(all_of_them)}: leave them out with an exclude list"
            )

    def acquit(self, epoch: int, step: int, lo: int, hi: int) -> None:
        """Clear the rows [lo, hi) of a step, which are done, of suspicion."""
        for row in [r for r in self.suspects if r[:2] == (epoch, step) and lo <= r[2] < hi]:
            del self.suspects[row]


class Streams:
    """The served streams, by stream id."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._by_id: dict[str, Stream] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def join(self, spec: StreamSpec, build: BuildResult) -> Stream:
        """Return the stream of that spec, and add a group to it."""
        stream_id = spec.stream_id
        stream = self._by_id.get(stream_id)
        if stream is None:
            stream = self._by_id[stream_id] = Stream(self._settings, stream_id, spec, build)
        stream.groups += 1
        return stream

    def leave(self, stream: Stream) -> None:
        """Remove a group from the stream."""
        stream.groups -= 1
        if not stream.groups:
            del self._by_id[stream.stream_id]


def check_request(request: Open) -> Share:
    """Check a request as far as possible without a build; return the rank's part of a batch.

    Raises:
        UsageError: the rank is not below the world size, has no row or too many, the sources do not
            fit together, or options exclude each other.
    """
    request.stream.check_sources()
    asked = Asked(request.stream, request.delivery, request.world_size)
    check_combination(asked, received=True)
    share = Share(request.rank, request.world_size, request.stream.batch.views)
    share.of(request.stream.batch.positions)
    return share


def steps_of_rank(share: Share, spec: StreamSpec, build: BuildResult, request: Open) -> RankSteps:
    """Return the steps of a rank.

    Raises:
        UsageError: the rank has no row of some batch, or too many, or more than can be verified; or
            an epoch has no steps.
    """
    params_bytes = build.params_bytes if request.stream.params else 0
    if not build.buckets:
        cut = share.cut(spec.batch_size, batch_outputs(spec, build.outputs, params_bytes))
        _check_verified(request, cut)
        return RankSteps((cut,), steps_per_epoch(spec))
    cuts = tuple(
        share.cut(bucket.positions, batch_outputs(spec, outputs, params_bytes))
        for bucket, outputs in zip(build.buckets, build.bucket_outputs, strict=True)
    )
    _check_verified(request, *cuts)
    return RankSteps(cuts, BucketTurns(spec, build.buckets, build.leftovers))


def _check_verified(request: Open, *cuts: RankCut) -> None:
    most = max(cut.rows for cut in cuts)
    if request.delivery.verify and most > MAX_VERIFIED_ROWS:
        raise UsageError(
            f"verify: a rank can verify at most {MAX_VERIFIED_ROWS} rows of a batch, got {most};"
            " use a smaller batch size, or leave verify out"
        )


def compose(request: StreamRequest, build: BuildResult, excluded: Excluded) -> StreamSpec:
    """Return the StreamSpec of a request.

    Raises:
        UsageError: a value is out of bounds, `total_epochs` is missing, or the exclude list belongs
            to another dataset.
        UnknownNameError: `freeze` names a stream that the pipeline does not draw from.
    """
    order, batch, draws = request.order, request.batch, request.draws
    for name in draws.freeze:
        resolve("stream", name, {stream: stream for stream in build.streams}, "this pipeline")
    if build.reads_schedule and draws.total_epochs is None:
        raise UsageError(
            "the pipeline reads ctx.progress, so the length of the training must be known: give"
            " total_epochs= to the Loader"
        )
    left_out = build.excluded
    if left_out is None and build.mix is None:
        excluded.check(build.rows)
        left_out = excluded.digest
    return StreamSpec(
        dataset=build.fingerprint,
        dataset_rows=build.rows,
        pipeline=build.pipeline_id,
        batch_size=batch.positions,
        order=OrderSpec(
            kind="full" if build.weights is None else "weighted",
            shuffle=order.shuffle,
            weights=build.weights,
            block=order.block or None,
            seed=None if order.seed == draws.seed else order.seed,
        ),
        tail="drop" if build.mix and not build.buckets else batch.tail,
        seed=draws.seed,
        freeze=dict(draws.freeze),
        views=batch.views,
        total_epochs=draws.total_epochs if build.reads_schedule else None,
        on_error=batch.on_error,
        exclude=left_out,
        buckets=build.bucket_plan,
        mix=build.mix,
    )


def served_stream(request: StreamRequest, spec: StreamSpec, build: BuildResult) -> ServedStream:
    """Return what workers and replayers need of a stream."""
    sources = tuple(
        built
        if built.selection != Selection()
        else msgspec.structs.replace(built, selection=asked.selection)
        for built, asked in zip(build.sources, request.sources, strict=True)
    )
    return ServedStream(spec, sources, request.order.buckets, build.code)
