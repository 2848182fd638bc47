"""An OPEN from arguments without levels: for tests that change one or two of them."""

from typing import Any

from msgspec.structs import replace

from stoker.protocol.messages import Open
from stoker.protocol.request.stream_request import (
    BatchRequest,
    DeliveryRequest,
    DrawRequest,
    GroupRequest,
    OrderRequest,
    Selection,
    SourceRequest,
    StreamRequest,
)
from stoker.protocol.spec import StreamSpec
from stoker.server.work.work_records import (
    BuildRequest,
    BuiltSource,
    OpenStream,
    ServedStream,
    SourceToBuild,
    StreamToBuild,
)

SELECTION = ("split", "subset", "exclude", "weights")
PLACES: dict[str, tuple[str, str]] = {
    "batch_size": ("batch", "positions"), "views": ("batch", "views"), "tail": ("batch", "tail"),
    "on_error": ("batch", "on_error"), "shuffle": ("order", "shuffle"),
    "shuffle_block": ("order", "block"), "shuffle_seed": ("order", "seed"),
    "buckets": ("order", "buckets"), "seed": ("draws", "seed"), "freeze": ("draws", "freeze"),
    "total_epochs": ("draws", "total_epochs"), "group": ("group", "name"),
    "group_size": ("group", "size"), "mode": ("group", "mode"),
    "hosts": ("group", "hosts"), "begun": ("group", "begun"),
}  # fmt: skip
"""Argument -> its record, and its name there; other arguments are of OPEN, a source, delivery."""


def opening(**given: Any) -> Open:
    """Return an OPEN; `mix` is a list of (dataset, ratio, pipeline)."""
    given = {"request": 1, "batch_size": 16, "prefetch": 3, "leases": 2} | given
    parts: dict[str, dict[str, Any]] = {"batch": {}, "order": {}, "draws": {}, "group": {}}
    for name in [*given]:
        if name in PLACES:
            part, field = PLACES[name]
            parts[part][field] = given.pop(name)
    chosen = Selection(**{name: given.pop(name) for name in SELECTION if name in given})
    of_open = {n: given.pop(n) for n in ("rank", "world_size", "job") if n in given}
    mix = given.pop("mix", None)
    source = {n: given.pop(n) for n in ("dataset", "pipeline", "graph") if n in given}
    sources = [SourceRequest(**source, selection=chosen)]
    if mix is not None:
        sources = [
            SourceRequest(dataset=name, ratio=ratio, pipeline=pipeline, selection=chosen)
            for name, ratio, pipeline in mix
        ]
    stream = StreamRequest(
        sources=tuple(sources),
        batch=BatchRequest(**parts["batch"]),
        order=OrderRequest(**parts["order"]),
        draws=DrawRequest(**parts["draws"]),
        params=given.pop("params", False),
    )
    request = given.pop("request")
    has_group = parts["group"].get("name") is not None
    group = GroupRequest(**parts["group"]) if has_group else None
    return Open(request, stream, DeliveryRequest(group=group, **given), **of_open)


def to_build(build: int, dataset: str, pipeline: str = "", graph: bytes = b"") -> BuildRequest:
    """Return a request to build a pipeline for one dataset, by paths."""
    return BuildRequest(build, StreamToBuild((SourceToBuild(dataset, pipeline, graph),)))


def served(dataset: str, spec: StreamSpec, graph: bytes) -> ServedStream:
    """Return a stream of one dataset, as workers get it."""
    rows = spec.dataset_rows
    return ServedStream(spec, (BuiltSource(dataset, spec.dataset, rows, spec.pipeline, graph),))


def changed(opened: OpenStream, **fields: Any) -> OpenStream:
    """Return another stream; `spec`, `dataset` and `graph` are deeper in the record."""
    stream = opened.served
    source = {name: fields.pop(name) for name in ("dataset", "graph") if name in fields}
    spec = {"spec": fields.pop("spec")} if "spec" in fields else {}
    sources = (replace(stream.sources[0], **source),)
    return replace(opened, served=replace(stream, sources=sources, **spec), **fields)
