"""Arguments that other data loaders have, or a record of rare ones, and what to write here."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from stoker.protocol.errors import UsageError

LEAVE: Final = "leave it out"
ELSEWHERE: Final = {
    "batch_sampler": "buckets=, or batch_size= and shuffle=",
    "as_numpy": "device='numpy'",
    "block_size": "shuffle=Shuffle(block_size=...)",
    "class_weight": "weights={class: weight}",
    "collate_fn": "outputs.pad, outputs.ragged or outputs.as_list in the pipeline",
    "connect_timeout_s": "connection=Connection(connect_timeout_s=...)",
    "daemon_key": "connection=Connection(daemon_key=...)",
    "epochs": "total_epochs=",
    "generator": "seed=",
    "group_size": "group=Group(NAME, size=...)",
    "indices": "subset=",
    "key": "connection=Connection(key=...)",
    "loader": f"{LEAVE}: a Loader wraps no other loader",
    "mode": "group=Group(NAME, mode=...)",
    "multiprocessing_context": "workers=",
    "num_epochs": "total_epochs=",
    "num_workers": "workers=",
    "order": "shuffle=True or shuffle=False",
    "os_cache": f"{LEAVE}: the page cache is always used",
    "persistent_workers": f"{LEAVE}: workers live as long as the daemon",
    "pin_memory": "device='cuda'",
    "pin_memory_device": "device='cuda:0'",
    "pipelines": "pipeline=, with stoker.pipeline.pipelines for one list per field",
    "prefetch_factor": "prefetch=, in batches",
    "reconnect_s": "connection=Connection(reconnect_s=...)",
    "sampler": "subset=, weights= and shuffle=",
    "shuffle_block_size": "shuffle=Shuffle(block_size=...)",
    "shuffle_seed": "shuffle=Shuffle(seed=...)",
    "split": "subset='NAME'",
    "timeout": "connection=Connection(timeout_s=...)",
    "timeout_s": "connection=Connection(timeout_s=...)",
    "transform": "pipeline=",
    "worker_init_fn": f"{LEAVE}: draws belong to samples, not to workers",
}
"""Argument of a DataLoader, of FFCV, or of a record -> what to write here."""


def refuse_unknown(given: Mapping[str, object], known: Iterable[str]) -> None:
    """Raise for arguments that the Loader does not have.

    Raises:
        UsageError: names the first one, and what takes its place.
    """
    for name in given:
        if name in ELSEWHERE:
            advice = ELSEWHERE[name]
            use = "" if advice.startswith(LEAVE) else "use "
            raise UsageError(f"Loader has no argument {name!r}: {use}{advice}")
        close = difflib.get_close_matches(name, [*known, *ELSEWHERE], 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        if close and close[0] in ELSEWHERE:
            hint += f" Write {ELSEWHERE[close[0]]}"
        raise UsageError(f"Loader has no argument {name!r}{hint}")
