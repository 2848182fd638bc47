"""The law's oracle: the same stream in one process, by the interpreter, without any daemon.

No numba, no worker, no slot that is shared: order, draws, plain NumPy kernels, one row after the
other. Slow on purpose. The law says that whatever a daemon delivers equals this, byte for byte.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stoker.dataset import open_dataset
from stoker.order.batches import rank_rows, steps_per_epoch
from stoker.pipeline.drawing import row_bytes
from stoker.pipeline.engine import Engine
from stoker.pipeline.graph import Graph
from stoker.pipeline.interpreter import Interpreter
from stoker.pipeline.plan import bind
from stoker.protocol import forms
from stoker.protocol.drawn import params_output
from stoker.protocol.layout import ragged_outputs, slot_layout
from stoker.protocol.ragged import flatten, gather
from stoker.protocol.spec import StreamSpec
from stoker.server.rows import RowComputer
from stoker.server.states import field_states


def make_spec(dataset_path: str | Path, graph: Graph, **fields: object) -> StreamSpec:
    """Return the StreamSpec of a pipeline over a dataset; `fields` are those of StreamSpec."""
    dataset = open_dataset(dataset_path)
    try:
        return StreamSpec(
            dataset=dataset.fingerprint,
            dataset_rows=len(dataset),
            pipeline=graph.pipeline_id,
            **fields,  # type: ignore[arg-type]
        )
    finally:
        dataset.close()


def reference_batches(
    dataset_path: str | Path,
    graph: Graph,
    spec: StreamSpec,
    *,
    epoch: int = 0,
    first_step: int = 0,
    rank: int = 0,
    world_size: int = 1,
    params: bool = False,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (step, outputs) of the rest of an epoch; arrays are `(rows, ...)`, owned by the caller.

    Ragged outputs are `Ragged`. `index`, `requested` and `valid` are among the outputs, with
    `params` also the draw records, as bytes.
    """
    dataset = open_dataset(dataset_path)
    try:
        plan = bind(graph, field_states(dataset))
        engine: Engine = Interpreter(plan, spec.freeze)
        low, high = rank_rows(spec.batch_size * spec.views, rank, world_size)
        ragged = ragged_outputs(plan.delivered)
        more = params_output(row_bytes(plan)) if params else ()
        layout = slot_layout(plan.delivered + more, high - low)
        computer = RowComputer(spec, dataset, engine, layout, low, params=bool(more))
        for step in range(first_step, steps_per_epoch(spec)):
            slot = np.zeros(layout.slot_bytes, np.uint8)
            computer.fill(slot, epoch, step, low, high)
            arrays = {
                placed.name: slot[placed.offset : placed.offset + placed.size_bytes]
                .view(placed.dtype)
                .reshape(placed.shape)
                for placed in layout.outputs
            }
            arrays = forms.flatten(flatten(arrays, ragged), plan.outputs)
            yield step, forms.gather(gather(arrays, ragged), plan.outputs)
    finally:
        dataset.close()
