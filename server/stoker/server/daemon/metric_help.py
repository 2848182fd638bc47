"""HELP lines of `/metrics`: what each metric counts, its unit, and what to do about it.

By name without the prefix `stoker_`, as in STATUS. docs/operations.md lists the same metrics; a
test compares both with what a daemon exports.
"""

from collections.abc import Mapping
from typing import Final

HELP: Final[Mapping[str, str]] = {
    # Clients
    "sessions": "Sessions now: connected clients, also those that have opened no stream.",
    "sessions_limit": (
        "The most sessions at a time: daemon.max_sessions, or less if few files may be open."
    ),
    "sessions_total": (
        "Sessions that were greeted. If it grows much faster than trainings start, clients lose "
        "their connection: see session_lost in the log."
    ),
    "streams": "Different streams that are open now.",
    "groups": "Slabs: one for each session of its own, and for each group.",
    "members": "Sessions in named groups and forks.",
    "credits": (
        "Batches that clients have asked for and that are not announced yet. If it stays high, "
        "workers are too slow: see stoker status, untaken and waited."
    ),
    "errors_total": "Errors sent to clients; the log has the reasons (request_refused).",
    "refused_messages_total": (
        "Messages that broke the protocol. If it grows, a client is of another release, or "
        "hostile: see message_refused in the log."
    ),
    "refused_connections_total": (
        "Connections to the side socket that were refused: of another user, or against the rules."
    ),
    # Batches and rows
    "batches_total": "Batches announced to sessions; its rate is the speed of all trainings.",
    "shared_batches_total": (
        "Of batches_total, those that another member of the group had got before, so that nothing"
        " was computed for them."
    ),
    "dropped_batches_total": (
        "Batches of groups that went before all members had them, and are computed again. If it "
        "grows, members are too far apart: give them more prefetch."
    ),
    "batches_under_way": "Batches begun and not announced yet.",
    "epochs_total": (
        "Epochs delivered to their last batch, each counted once for any number of ranks, and "
        "once for each member of a group."
    ),
    "rows_total": "Rows computed by workers.",
    "home_rows_total": "Of rows_total, those in the home range of their worker's storage.",
    "stolen_rows_total": "Of rows_total, those outside of the home range of their worker.",
    "unclaimed_rows": (
        "Rows of begun batches that no worker has yet. If it stays high, workers are the "
        "bottleneck."
    ),
    "recomputed_rows_total": "Rows computed again, because their worker or slot was lost.",
    "voided_rows_total": (
        "Rows computed for batches that no client wanted any more, as after a loop that was left "
        "early."
    ),
    "replaced_rows_total": "Rows with a substitute for a bad sample (on_error replace).",
    "invalid_rows_total": "Rows that do not count, for a bad sample (on_error mask).",
    "decodes_total": (
        "Encoded values of samples (JPEG, PNG, bands) that workers decoded, whole or a box. "
        "Samples that are stored decoded count nothing."
    ),
    "worker_seconds_total": (
        "Seconds that workers spent on rows. Divided by their number it grows by 1 a second "
        "while workers are the bottleneck."
    ),
    "worker_cpu_seconds_total": "Of worker_seconds_total, processor time.",
    "worker_queued_seconds_total": (
        "Of worker_seconds_total, waiting for a processor. If it grows fast, other processes need "
        "the same cores: use fewer workers, or more cores."
    ),
    "carried_samples_total": "With buckets: samples that epochs carried on to the next one.",
    "dropped_samples_total": "With buckets: samples that epochs dropped.",
    "padded_positions_total": "With buckets: positions that epochs padded.",
    # Samples
    "bad_samples_total": (
        "Samples that could not be used, once for each stream. If it grows, a file or disk is "
        "damaged: run stoker verify."
    ),
    "crashed_samples_total": (
        "Samples replaced because they crashed or hung workers (bad_samples.crash_policy)."
    ),
    # Workers
    "workers": "Worker processes that are running or starting.",
    "workers_wanted": "Workers that there should be: workers.count, or less after stoker resize.",
    "workers_up": (
        "Workers that are ready for work. If it stays below workers, see worker_down in the log."
    ),
    "worker_starts_total": "Workers started; after the first ones, each replaced one that died.",
    "worker_deaths_total": (
        "Workers that died, also those that the daemon killed. If it grows, see worker_down in "
        "the log."
    ),
    "worker_hangs_total": (
        "Workers killed because a chunk took longer than workers.claim_deadline_s. If it grows, "
        "storage or a function of a pipeline hangs."
    ),
    "claims": "Chunks of rows that workers have now.",
    "chunks_total": "Chunks of rows that workers have done.",
    "recalled_chunks_total": "Chunks taken back from workers that had stalled.",
    "stale_results_total": "Results of chunks that were given to other workers meanwhile.",
    "stale_releases_total": (
        "Slots that clients returned and did not hold. A few come when a loop is left early."
    ),
    # Builds and replays
    "builds": "Pipelines that are being built, or wait for that.",
    "builds_total": "Builds of pipelines begun.",
    "replays": "Replays that are being made, or wait for that.",
    "replays_total": "Replays sent to clients.",
    "own_decoder": (
        "1 if workers decode JPEGs on a grid by Stoker's own decoder; 0: by libjpeg-turbo."
    ),
    "decoder_compilations_total": (
        "Compilations of Stoker's own decoder begun. More than one: see own_decoder_failed in the"
        " log."
    ),
    # Memory
    "memory_used_bytes": (
        "Bytes that count against memory.limit: slots of all sessions, and what workers need for "
        "pipelines. Near the limit, streams are refused: raise memory.limit, or use a smaller "
        "prefetch."
    ),
    "memory_working_bytes": "Of memory_used_bytes, what workers need for pipelines.",
    "memory_limit_bytes": "Bytes allowed by memory.limit.",
    "memory_granted_bytes": "Bytes of slots whose memory is reserved.",
    "free_slots": "Slots without a batch.",
    "filling_slots": "Slots that workers write to.",
    "ready_slots": (
        "Slots with a complete batch that no client has asked for yet. If it stays high, clients "
        "are slower than workers."
    ),
    "leased_slots": "Slots that clients hold.",
    "kept_slots": "Slots kept for members of groups that are behind.",
    "coming_slots": "Slots of sessions that join or open, whose memory is being reserved.",
    "cancelled_slots": "Slots of batches that no client wants now, until their workers are done.",
    "spare_slots": (
        "Slots in reserve, one for each slab, for a worker that cannot be confirmed dead."
    ),
    "retired_slots": (
        "Slots given up, because a worker that may write to them cannot be confirmed dead. Above "
        "0: look for processes in state D, usually at a network file system."
    ),
    "retired_slots_total": "How often a slot was given up.",
    # The daemon itself
    "loop_turns_total": "Turns of the daemon's loop.",
    "loop_slow_turns_total": (
        "Turns of more than 0.005 s. If it grows while the host is not busy, see slow_turn in the"
        " log."
    ),
    "loop_turn_max_seconds": "The longest turn since the start, in seconds.",
    "loop_turn_max_cpu_seconds": (
        "The most processor time in one turn, in seconds. The difference from "
        "loop_turn_max_seconds is time of other processes."
    ),
    "descriptors": "Files that the daemon has open; the limit is process_max_fds.",
    "accept_pauses_total": (
        "How often the daemon stopped accepting connections because few descriptors were left. If"
        " it grows, raise LimitNOFILE (ulimit -n)."
    ),
    "unexpected_errors_total": (
        "Unexpected exceptions in the daemon, each a fault of the daemon: it ended the "
        "connection, process or session concerned. Please report unexpected_error of the log."
    ),
}
