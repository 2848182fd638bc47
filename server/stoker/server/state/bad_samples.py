"""Bad samples in a stream that continues: each is recorded once and counted; too many stop it.

Workers report them with their chunks. A sample is known by its id for as long as its stream is
served. New ones become a `Quarantine` instruction, which writes them to a file. If more than
`max_bad_fraction` of the dataset's samples are bad, the stream stops for good, because the fault is
then larger than a few samples.
"""

from stoker.protocol.errors import StreamStoppedError
from stoker.server.state.core_context import CoreContext
from stoker.server.state.core_instructions import Quarantine
from stoker.server.state.groups.group_delivery import Deliveries
from stoker.server.state.served_streams import Stream
from stoker.server.work.work_records import BadSample

MAX_KNOWN = 2**20
"""Ids that are remembered per stream; further ones are counted each time they occur."""


class BadSamples:
    """Handles reports of bad samples."""

    def __init__(self, context: CoreContext, groups: Deliveries) -> None:
        self._context = context
        self._groups = groups

    def note(self, stream: Stream, bad_samples: tuple[BadSample, ...]) -> None:
        """Record the bad samples that a worker found in rows of a stream."""
        new = list({bad.id: bad for bad in bad_samples if bad.id not in stream.bad}.values())
        if not new:
            return
        if len(stream.bad) < MAX_KNOWN:
            stream.bad.update(bad.id for bad in new)
        spec, most = stream.spec, self._context.settings.max_bad_fraction
        self._context.counts.bad_samples += len(new)
        self._context.out.append(Quarantine(spec.dataset, tuple(new)))
        self._context.log(
            "warning", "bad_samples", stream=stream.stream_id, known=len(stream.bad),
            id=new[0].id, field=new[0].field, reason=new[0].reason,
        )  # fmt: skip
        if len(stream.bad) > most * spec.dataset_rows:
            error = StreamStoppedError(
                f"{len(stream.bad)} of the {spec.dataset_rows} samples of dataset"
                f" {spec.dataset} are bad so far, more than bad_samples.max_fraction = {most:g}"
                f" allows; the last: sample {new[-1].id}: {new[-1].reason}. Run `stoker verify`"
                " on the dataset",
                bad=len(stream.bad),
                id=new[-1].id,
            )
            self._groups.stop_stream(stream, error)
