"""The batches of a run of a loader, as digests, and their form as lines of JSON.

The process of a run writes the lines into a file (`audited_run`); the audit reads them. Nothing of
a batch but digests and sample ids goes from one to the other.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from stoker.client.row_summaries import DIGEST_BYTES, most_common_length, outputs_of, summary_of
from stoker.protocol.analysis import analyzed
from stoker.protocol.errors import UsageError

ID_NAMES: Final = (
    "index", "indices", "idx", "id", "ids", "sample_id", "sample_ids", "image_id", "key", "__key__",
)  # fmt: skip
"""Outputs that are taken for sample ids if none is named, the first one that there is."""


class SeenBatch(msgspec.Struct, frozen=True, array_like=True):
    """Digests of a batch.

    Attributes:
        outputs: name -> (form in words, digest of each row in hex).
        rows: digest of each row over all outputs that have as many rows as the batch.
        ids: the sample id of each row as text; empty if the batch has no ids.
    """

    outputs: dict[str, tuple[str, list[str]]]
    rows: list[str]
    ids: list[str]


class RunLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of a run's file; what it says nothing of is None.

    Attributes:
        takes: parameters of the factory that an audit gives.
        others: its other parameters.
        loop: a loop begins; its number.
        batch: a batch of it.
        ended: whether the loop ended before the run had enough batches.
        failed: what raised, in one line.
        missing: why the run cannot be done with this loader.
    """

    takes: list[str] | None = None
    others: list[str] | None = None
    loop: int | None = None
    batch: SeenBatch | None = None
    ended: bool | None = None
    failed: str | None = None
    missing: str | None = None


def seen(batch: Any, ids: str | None) -> SeenBatch:
    """Return the digests of a batch.

    Args:
        batch: of any loader.
        ids: name of the output that holds sample ids; None looks for one of `ID_NAMES`.

    Raises:
        UsageError: the batch has no such output, or an output that cannot be compared.
    """
    summary = summary_of(batch)
    counts = Counter(len(rows) for _, rows in summary.values())
    count = most_common_length(counts)
    digests = [hashlib.blake2b(digest_size=DIGEST_BYTES) for _ in range(count)]
    for _, rows in summary.values():
        if len(rows) == count:
            for digest, row in zip(digests, rows, strict=True):
                digest.update(row)
    outputs = {name: (form, [row.hex() for row in rows]) for name, (form, rows) in summary.items()}
    return SeenBatch(outputs, [one.hexdigest() for one in digests], _ids(batch, ids, count))


def _ids(batch: Any, name: str | None, count: int) -> list[str]:
    """Return the sample id of each row."""
    outputs = dict(outputs_of(batch))
    if name is not None and name not in outputs:
        raise UsageError(
            f"ids={name!r}: a batch has no such output; it has {', '.join(map(repr, outputs))}"
        )
    chosen = name or next((known for known in ID_NAMES if known in outputs), None)
    if chosen is None:
        return []
    value = outputs[chosen]
    found = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(found, list | tuple) and len(found) == count:
        return [str(one) for one in found]
    if name is not None:
        raise UsageError(f"ids={name!r}: expected one id a row, {count} of them")
    return []


@dataclass
class SeenLoop:
    """The batches of one loop; `ended` says whether the loop ended by itself."""

    batches: list[SeenBatch] = field(default_factory=list)
    ended: bool = False

    @property
    def rows(self) -> list[str]:
        """The digest of each row."""
        return [row for batch in self.batches for row in batch.rows]

    @property
    def ids(self) -> list[str]:
        """The sample ids; empty if batches have no ids."""
        return [one for batch in self.batches for one in batch.ids]


@dataclass
class SeenRun:
    """The batches of a run, and its end.

    Attributes:
        takes: parameters of the factory that an audit gives.
        others: its other parameters.
        loops: what each loop over the loader delivered.
        failed: why it did not end well; empty if it did.
        missing: why it could not be done with this loader; empty if it could.
    """

    takes: Sequence[str] = ()
    others: Sequence[str] = ()
    loops: list[SeenLoop] = field(default_factory=list)
    failed: str = ""
    missing: str = ""

    @property
    def loop(self) -> SeenLoop:
        """The first loop."""
        return self.loops[0] if self.loops else SeenLoop()


def written(line: RunLine) -> bytes:
    """Return a line of a run's file."""
    return msgspec.json.encode(line) + b"\n"


def read_run(lines: Iterable[bytes]) -> SeenRun:
    """Return the run that wrote these lines; the last one may be cut off."""
    run, reader = SeenRun(), msgspec.json.Decoder(analyzed(RunLine))
    for text in lines:
        if not text.endswith(b"\n"):
            break
        line = reader.decode(text)
        run.takes, run.others = line.takes or run.takes, line.others or run.others
        run.failed, run.missing = line.failed or run.failed, line.missing or run.missing
        if line.loop is not None:
            run.loops.append(SeenLoop())
        if line.batch is not None:
            run.loops[-1].batches.append(line.batch)
        if line.ended is not None:
            run.loops[-1].ended = line.ended
    return run
