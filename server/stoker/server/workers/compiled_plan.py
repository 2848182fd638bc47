"""Compiles all machine code that a pipeline's workers run into the cache on disk.

Runs in a builder, and for `stoker warm`. A worker compiles missing code itself, within the deadline
of its rows.
"""

from collections.abc import Callable, Hashable
from typing import Final

from stoker.dataset import Dataset
from stoker.dataset.format.fields import PLANES
from stoker.dataset.images.jpeg.decoding.choice import needs_own_decoder
from stoker.dataset.images.jpeg.decoding.decoder import (
    compile_decode,
    compile_decode_planes,
    compile_decode_reduced,
    compile_prepare,
)
from stoker.dataset.images.jpeg.splice import compile_splice
from stoker.jit import activity
from stoker.jit.arithmetic import COMPILED
from stoker.jit.compiling_processes import compile_in_processes
from stoker.order.permutation import compile_permutation
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.compiled.machine import functions_of, missing_functions
from stoker.pipeline.compiled.program import write_program
from stoker.pipeline.engine.mixer import Mixer
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.planning.bucket_graph import Size
from stoker.pipeline.planning.plan import Plan
from stoker.pipeline.planning.scaled_fields import is_scaled
from stoker.server.rows.field_states import worker_plan
from stoker.server.rows.first_floats import check_first_floats
from stoker.server.rows.sample_reader import SampleReader
from stoker.server.settings.cgroup import cores
from stoker.server.workers.recent_kernels import remember

MOST_PROCESSES: Final = 4
"""Processes that compile one plan: its largest functions take a third of the time."""


def compiled_plan(graph: Graph, dataset: Dataset, bucket: Size | None = None) -> Plan:
    """Return the plan that workers run; its machine code is in the cache, and next time preloaded.

    Args:
        graph: of the pipeline.
        dataset: what it reads.
        bucket: size of the bucket whose samples are computed; None without buckets.

    Raises:
        BuildError: the pipeline does not fit the dataset.
    """
    plan = worker_plan(graph, dataset, bucket)
    check_first_floats(graph, dataset, plan, bucket)
    read = [field for field in dataset.schema.fields if field.name in plan.fields]
    others = [compile_permutation]
    if any(field.grid_column for field in read):
        others.append(compile_splice)
        planes = any(field.encoding == PLANES for field in read)
        others += [compile_prepare] if planes or needs_own_decoder() else []
        others += [compile_decode] if needs_own_decoder() else []
        others += [compile_decode_planes] if planes else []
        reduced = any(map(is_scaled, plan.fields))
        others += [compile_decode_reduced] if reduced and needs_own_decoder() else []
    activity.expect([*others, *([Mixer] if plan.mixes else [])])  # each counts as one function
    program = write_program(plan)
    if missing_functions(program) > 1:
        functions: dict[Hashable, Callable[[], object]] = {one: one for one in others}
        functions |= functions_of(program)
        compile_in_processes(functions, min(cores()[0], MOST_PROCESSES))
    engine = compile_plan(plan, {})
    if plan.mixes:
        Mixer(engine, arithmetic=COMPILED)
        activity.finished(Mixer)
    SampleReader(dataset, plan.fields).read_boxes(plan, None, arithmetic=COMPILED)
    for compile_other in others:
        compile_other()
        activity.finished(compile_other)
    remember()
    return plan
