"""Arguments that other data loaders have, and what takes their place here."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

from stoker.protocol.errors import UsageError

LEAVE: Final = "leave it out"
ELSEWHERE: Final = {
    "batch_sampler": "buckets=, or batch_size= and shuffle=",
    "block_size": "shuffle_block_size=",
    "class_weight": "weights={class: weight}",
    "collate_fn": "outputs.pad, outputs.ragged or outputs.as_list in the pipeline",
    "epochs": "total_epochs=",
    "generator": "seed=",
    "indices": "subset=",
    "loader": f"{LEAVE}: a Loader wraps no other loader",
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
    "sampler": "subset=, weights= and shuffle=",
    "split": "subset='NAME'",
    "timeout": "timeout_s=",
    "transform": "pipeline=",
    "worker_init_fn": f"{LEAVE}: draws belong to samples, not to workers",
}
"""Argument of a DataLoader or of FFCV -> what to write here."""


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
        close = difflib.get_close_matches(name, list(known), 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UsageError(f"Loader has no argument {name!r}{hint}")
