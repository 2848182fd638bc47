"""`stoker warm`: compile ahead, so that no training waits for it.

For container images, and for hosts that share nothing but an image. Compiled code fits the
processor it was made on, and the versions of Python, numba and NumPy: elsewhere it is compiled
again, as if the cache were empty.
"""

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from stoker.dataset.images.jpeg.decoding.choice import LIBJPEG, OWN, choose_decoder
from stoker.dataset.images.jpeg.decoding.decoder import compile_decode, compile_prepare
from stoker.dataset.images.jpeg.splice import compile_splice
from stoker.jit import activity, cache_root, set_cache_root
from stoker.protocol.errors import UsageError
from stoker.server.commands.compile_progress import compile_progress
from stoker.server.commands.subject_flags import BucketFlag, PythonPathFlag
from stoker.server.rows.subject import open_subject
from stoker.server.settings import config_loading as configuration
from stoker.server.settings.cgroup import cores


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
    bucket: BucketFlag = None,
    python_path: PythonPathFlag = None,
    folder: Annotated[
        str | None, typer.Option("--cache-root", help="Folder of the compiled kernels.")
    ] = None,
) -> None:
    """Compile a pipeline with the order of its rows, or every op, into the cache of kernels.

    Examples: `stoker warm --all-ops`, `stoker warm --pipeline pipelines:train --dataset packed`.
    """
    if (pipeline is None) != (dataset is None):
        raise UsageError("stoker warm: --pipeline and --dataset belong together: give both")
    if pipeline is None and not all_ops:
        raise UsageError("stoker warm: give --pipeline and --dataset, or --all-ops, or all three")
    if bucket is not None and pipeline is None:
        raise UsageError("stoker warm: --bucket is for --pipeline: give both, or leave it out")
    if folder is not None:
        set_cache_root(folder)
    if pipeline is not None and dataset is not None:
        with open_subject(pipeline, dataset, python_path or (), bucket):
            pass  # a mistake ends the command before anything is compiled
    began = time.monotonic()
    decoder = LIBJPEG if configuration.load().config.daemon.jpeg == LIBJPEG else OWN
    with compile_progress():
        done = _all_ops(decoder) if all_ops else []
        if pipeline is not None and dataset is not None:
            _one_pipeline(pipeline, dataset, python_path or (), bucket, decoder)
            done.append(f"{pipeline}: compiled")
    for line in done:
        typer.echo(line)
    typer.echo(f"kernels are in {cache_root()}; {time.monotonic() - began:.1f} s")


def _all_ops(decoder: str) -> list[str]:
    """Compile every op, and the decoders of JPEGs; return what there is to say."""
    from stoker.pipeline.compiled.warm_kernels import batch_calls, op_calls  # noqa: PLC0415 - loads numba
    from stoker.pipeline.compiled.warm_kernels import warm as warm_calls  # noqa: PLC0415

    decoders = [compile_splice, *([compile_prepare, compile_decode] if decoder == OWN else [])]
    activity.expect(decoders)
    done = warm_calls([*op_calls(), *batch_calls()], cores()[0])
    for compile_one in decoders:
        compile_one()
        activity.finished(compile_one)
    told = ["decoder of JPEGs: compiled"] if decoder == OWN else []
    return [f"ops: {done.compiled} functions compiled, {done.found} were there", *told]


def _one_pipeline(
    pipeline: str, dataset: str, python_path: Sequence[str], bucket: str | None, decoder: str
) -> None:
    from stoker.server.workers.compiled_plan import compiled_plan  # noqa: PLC0415 - loads numba

    choose_decoder(decoder)
    with open_subject(pipeline, dataset, python_path, bucket) as subject:
        compiled_plan(subject.plan.graph, subject.dataset, subject.bucket)
