"""State that every part of the core shares: settings, time, counts, and the list of instructions.

The list of instructions is filled while one event is handled, and emptied by `Core.handle`. Errors
leave through `error_record`, which cuts text to the bounds of the wire, so that no build or worker
can cause a record that the client's decoder rejects.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from stoker.protocol.accounts import EpochAccount
from stoker.protocol.errors import Detail, StokerError
from stoker.protocol.messages import DaemonRecord, Error
from stoker.server.state.core_instructions import Instruction, Log, Send
from stoker.server.state.settings import Settings

Fault = tuple[str, str, Mapping[str, Detail]]
"""An error in wire form: code, message, details."""

MAX_TEXT = 16384
MAX_REASON = 1000
MAX_NAME = 256
MAX_DETAILS = 64
MAX_INT = 2**63 - 1


@dataclass(slots=True)
class Counts:
    """Counts since the start; each becomes the metric `<field>_total`."""

    sessions: int = 0
    batches: int = 0
    shared_batches: int = 0
    dropped_batches: int = 0
    chunks: int = 0
    recalled_chunks: int = 0
    rows: int = 0
    home_rows: int = 0
    decodes: int = 0
    worker_seconds: float = 0.0
    worker_cpu_seconds: float = 0.0
    worker_queued_seconds: float = 0.0
    recomputed_rows: int = 0
    voided_rows: int = 0
    replaced_rows: int = 0
    invalid_rows: int = 0
    bad_samples: int = 0
    crashed_samples: int = 0
    epochs: int = 0
    carried_samples: int = 0
    dropped_samples: int = 0
    padded_positions: int = 0
    builds: int = 0
    replays: int = 0
    decoder_compilations: int = 0
    errors: int = 0
    worker_starts: int = 0
    worker_deaths: int = 0
    worker_hangs: int = 0
    retired_slots: int = 0
    stale_releases: int = 0
    stale_results: int = 0

    def add_epoch(self, account: EpochAccount | None) -> None:
        """Count an epoch whose last batch is announced, over all ranks."""
        self.epochs += 1
        if account is not None:
            self.carried_samples += account.carried_out
            self.dropped_samples += account.dropped
            self.padded_positions += account.padded


@dataclass(slots=True)
class CoreContext:
    """The state shared by the parts of one core.

    Attributes:
        settings: limits and deadlines.
        now: the time of the event that is handled.
        counts: counts since the start.
        out: the instructions of that event.
        unstored: why kernels could not be stored; empty if they could.
    """

    settings: Settings
    now: float = 0.0
    counts: Counts = field(default_factory=Counts)
    out: list[Instruction] = field(default_factory=list)
    unstored: str = ""

    def send(self, token: bytes, *records: DaemonRecord) -> None:
        """Send records to a session."""
        self.out.append(Send(token, records))

    def send_error(
        self, token: bytes, error: StokerError, request: int = 0, run: int | None = None
    ) -> None:
        """Send an error to a session."""
        self.counts.errors += 1
        self.send(token, error_record(*error.to_record(), request=request, run=run))

    def note_unstored(self, reason: str) -> None:
        """Note why kernels are not stored, and log it once."""
        if not self.unstored:
            self.unstored = reason
            self.log("warning", "kernels_not_stored", reason=reason)

    def log(self, level: str, event: str, **facts: object) -> None:
        """Write one log line."""
        self.out.append(Log(level, event, facts))

    def log_refusal(self, event: str, fault: Fault, **facts: object) -> None:
        """Write a log line about what a client may not do, and why."""
        code, message, _ = fault
        facts |= {"code": code, "reason": _shortened(message, MAX_REASON)}
        self.out.append(Log("warning", event, facts, limited=True))


def backoff_s(settings: Settings, deaths: int) -> float:
    """Return the pause before the next start after this many deaths in a row."""
    pause = settings.worker_restart_backoff_s * 2.0 ** min(deaths - 1, 30)
    return min(pause, settings.worker_restart_backoff_max_s)


def error_record(
    code: str,
    message: str,
    details: Mapping[str, Detail],
    request: int = 0,
    run: int | None = None,
) -> Error:
    """Return the wire form of an error, cut to the bounds of the record."""
    kept = {key[:MAX_NAME]: _cut(value) for key, value in list(details.items())[:MAX_DETAILS]}
    return Error(request, code[:MAX_NAME], str(_cut(message)), kept, run)


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def _cut(value: Detail) -> Detail:
    if isinstance(value, str):
        return _shortened(value, MAX_TEXT)
    if isinstance(value, int) and abs(value) > MAX_INT:
        return str(value)[:MAX_TEXT]
    return value
