"""The pipelines of a loader by name: one for each field, then those with names of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stoker.compat.ffcv.fields.decoders import Decoder, default_decoder
from stoker.compat.ffcv.pipeline.pipeline_spec import PipelineSpec
from stoker.dataset.format.fields import Field
from stoker.protocol.errors import UnknownNameError


def named_pipelines(
    pipelines: Mapping[str, Any], fields: Mapping[str, Field]
) -> Iterator[tuple[str, str, Sequence[Any] | None]]:
    """Yield the name, the field and the operations of each pipeline; None: the default ones.

    Args:
        pipelines: as the script gave them; a field with None is left out.
        fields: those of the dataset.

    Raises:
        UnknownNameError: the dataset does not have a field.
    """
    for name, given in pipelines.items():
        if not isinstance(given, PipelineSpec) and name not in fields:
            raise UnknownNameError(
                f"pipelines: the dataset has no field {name!r}; it has {', '.join(fields)}. For "
                "another pipeline of one of them, give PipelineSpec(field, decoder, operations)"
            )
        if isinstance(given, PipelineSpec) and given.source not in fields:
            raise UnknownNameError(
                f"pipelines[{name!r}]: the dataset has no field {given.source!r}; it has "
                f"{', '.join(fields)}"
            )
    for name in [*fields, *(name for name in pipelines if name not in fields)]:
        given = pipelines.get(name, ())
        if isinstance(given, PipelineSpec):
            yield name, given.source, _operations(given, fields[given.source])
        elif given is not None:
            yield name, name, pipelines.get(name)


def _operations(spec: PipelineSpec, field: Field) -> Sequence[Any] | None:
    given = list(spec.transforms or ())
    if spec.decoder is None and (not given or isinstance(given[0], Decoder)):
        return given or None
    return [default_decoder(field) if spec.decoder is None else spec.decoder, *given]
