"""Users' code in workers: the same bytes as in process, and only where the operator allows it."""

import importlib
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from asking import to_build

from stoker.client import Loader
from stoker.dataset.format.fields import Schema
from stoker.dataset.format.schema import image, label
from stoker.dataset.packing.build import write_dataset
from stoker.pipeline.graph.normal import pipeline_id
from stoker.protocol.errors import BuildError
from stoker.server.rows.graphs import graph_from_bytes, graph_to_bytes
from stoker.server.rows.reference import make_spec, reference_batches
from stoker.server.workers.builder import build

pytestmark = pytest.mark.usefixtures("forked_private_daemons")

ROWS, BATCH = 10, 4


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    photo = skimage.data.astronaut()
    rows = (
        {"image": np.ascontiguousarray(photo[9 * n : 9 * n + 50, 100:160]), "label": n}
        for n in range(ROWS)
    )
    dest = tmp_path_factory.mktemp("custom") / "data"
    write_dataset(dest, Schema((image(encoding="raw"), label())), rows)
    return dest


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["custom_ops:corners", "custom_functions:noisy_corners", "defined_ops:foggy"]
)
def test_workers_compute_what_the_interpreter_computes(dataset, name):
    module, _, attribute = name.partition(":")
    made = getattr(importlib.import_module(module), attribute)
    spec = make_spec(dataset, made.graph(), batch_size=BATCH, seed=3)
    expected = [
        (epoch, out)
        for epoch in (0, 1)
        for _, out in reference_batches(dataset, made.graph(), spec, epoch=epoch)
    ]
    with Loader(
        str(dataset), pipeline=made, batch_size=BATCH, seed=3, device="numpy", workers=2
    ) as loader:
        got = [(epoch, dict(batch)) for epoch in (0, 1) for batch in loader]
    assert len(got) == len(expected) == 2 * (ROWS // BATCH)
    for (_, batch), (_, reference) in zip(got, expected, strict=True):
        assert np.array_equal(batch["image"], reference["image"])


def test_a_builder_imports_for_a_client_only_what_is_allowed(dataset, custom_ops, fresh_names):
    graph = graph_to_bytes(custom_ops.corners.graph())
    fresh_names()
    with pytest.raises(BuildError, match="op_modules = \\['custom_ops'\\]"):
        build(to_build(1, str(dataset), "", graph))
    fresh_names("custom_ops")
    built = build(to_build(1, str(dataset), "", graph))
    assert built.pipeline_id == pipeline_id(graph_from_bytes(graph))


def test_what_the_operators_own_pipeline_uses_needs_no_further_word(
    dataset, custom_ops, fresh_names
):
    fresh_names()
    built = build(to_build(1, str(dataset), "custom_ops:corners"))
    assert [output.name for output in built.outputs] == ["image", "label"]
