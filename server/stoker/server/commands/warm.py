"""`stoker warm`: compile ahead, so that no training waits for it.

For container images, and for hosts that share nothing but an image. Compiled code fits the
processor it was made on, and the versions of Python, numba and NumPy: elsewhere it is compiled
anew, as if the cache were empty.
"""

import time
from typing import Annotated

import typer

from stoker.order.epoch import EpochOrder
from stoker.pipeline.mixer import Mixer
from stoker.protocol.errors import UsageError
from stoker.rng.jit import cache_root, set_cache_root
from stoker.server.reference import make_spec
from stoker.server.samples import SampleReader
from stoker.server.states import worker_plan
from stoker.server.subject import open_subject


def warm(
    pipeline: Annotated[
        str | None, typer.Option(help="module:attribute of a pipeline; needs --dataset.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Folder of the dataset that the pipeline runs on.")
    ] = None,
    all_ops: Annotated[
        bool, typer.Option("--all-ops", help="Every op there is, on images and masks.")
    ] = False,
    bucket: Annotated[
        str | None, typer.Option(help="WIDTHxHEIGHT of the bucket, if the pipeline reads it.")
    ] = None,
    python_path: Annotated[
        list[str] | None, typer.Option(help="Folder to import the pipeline from; repeatable.")
    ] = None,
    folder: Annotated[
        str | None, typer.Option("--cache-root", help="Folder of the compiled kernels.")
    ] = None,
) -> None:
    """Compile a pipeline with the order of its rows, or every op, into the cache of kernels."""
    if (pipeline is None) != (dataset is None):
        raise UsageError("stoker warm: --pipeline and --dataset belong together: give both")
    if pipeline is None and not all_ops:
        raise UsageError("stoker warm: give --pipeline and --dataset, or --all-ops, or all three")
    if folder is not None:
        set_cache_root(folder)
    began = time.monotonic()
    if all_ops:
        from stoker.pipeline.warm import batch_calls, op_calls  # noqa: PLC0415 - loads numba
        from stoker.pipeline.warm import warm as warm_calls  # noqa: PLC0415

        done = warm_calls([*op_calls(), *batch_calls()])
        typer.echo(f"ops: {done.compiled} functions compiled, {done.found} were there")
    if pipeline is not None and dataset is not None:
        from stoker.pipeline.executor import compile_plan  # noqa: PLC0415 - loads numba

        with open_subject(pipeline, dataset, python_path or (), bucket) as subject:
            plan = worker_plan(subject.plan.graph, subject.dataset)
            engine = compile_plan(plan)
            if plan.mixes:
                Mixer(engine, machine=True)
            SampleReader(subject.dataset, plan.fields).read_boxes_alone(plan, None)
            spec = make_spec(dataset, subject.plan.graph, batch_size=1, seed=0)
            EpochOrder(spec, machine=True).lookup_range(0, 0, 1)
        typer.echo(f"{pipeline}: compiled")
    typer.echo(f"kernels lie in {cache_root()}; {time.monotonic() - began:.1f} s")
