"""The multi-crop example: all crops of a row come from one decode, each from its own streams."""

import importlib.util
import io
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from PIL import Image

from stoker.dataset import open_dataset, schema
from stoker.dataset.packing.build import write_dataset
from stoker.jit.arithmetic import COMPILED
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.planning.planner import bind, shorten
from stoker.protocol.slot_layout import slot_layout
from stoker.server.rows.field_states import field_states
from stoker.server.rows.reference import make_spec, reference_batches
from stoker.server.rows.row_computer import RowComputer
from stoker.server.rows.sample_rows import RowSource

EXAMPLE = Path(__file__).parents[2] / "examples" / "multi_crop" / "multi_crop.py"
ROWS = 4


@pytest.fixture(scope="module")
def example():
    found = importlib.util.spec_from_file_location("multi_crop", EXAMPLE)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=[True, False], ids=["grid", "no grid"])
def packed(request, tmp_path_factory):
    """Photographs as JPEGs, with and without a grid of restart intervals."""
    photographs = (skimage.data.astronaut(), skimage.data.chelsea(), skimage.data.coffee())
    rows = []
    for number in range(ROWS):
        out = io.BytesIO()
        Image.fromarray(photographs[number % 3][number:]).save(out, "JPEG", quality=85)
        rows.append({"image": out.getvalue(), "label": number})
    folder = tmp_path_factory.mktemp("multi") / "d"
    fields = (schema.image(grid=request.param), schema.label())
    write_dataset(folder, schema.Schema(fields), rows)
    return folder


def test_all_crops_come_from_one_decode(example, packed):
    graph = example.dino(4, 64, 32).graph()
    spec = make_spec(packed, graph, batch_size=ROWS, seed=3)
    depth = 0  # decode_box may hand over to decode, which is the same decode
    with open_dataset(packed) as dataset:
        plan = shorten(bind(graph, field_states(dataset)))
        layout, decoded = slot_layout(plan.outputs, ROWS), []
        computer = RowComputer(
            spec, [RowSource(dataset, compile_plan(plan, spec.freeze))], layout, arithmetic=COMPILED
        )
        for name in ("decode", "decode_box"):
            whole = getattr(dataset, name)

            def counted(field, sample_id, *rest, whole=whole, **more):
                nonlocal depth
                if depth == 0:
                    decoded.append(sample_id)
                depth += 1
                try:
                    return whole(field, sample_id, *rest, **more)
                finally:
                    depth -= 1

            setattr(dataset, name, counted)
        slot = np.zeros(layout.slot_bytes, np.uint8)
        computer.fill(slot, 0, 0, 0, layout.rows)
    assert sorted(decoded) == list(range(ROWS))
    ((_, expected),) = reference_batches(packed, graph, spec, epoch=0)
    for placed in layout.outputs:
        made = slot[placed.offset : placed.offset + placed.size_bytes].tobytes()
        assert made == expected[placed.name].tobytes(), placed.name


def test_every_view_has_streams_of_its_own(example):
    photo = skimage.data.coffee()
    few, many = (
        example.dino(count, 64, 32)({"image": photo, "label": 1}, seed=1, epoch=0, id=5)
        for count in (2, 3)
    )
    assert few["local_views"].shape == (2, 3, 32, 32)
    assert many["local_views"].shape == (3, 3, 32, 32)
    assert np.array_equal(few["global_views"], many["global_views"])
    assert np.array_equal(few["local_views"], many["local_views"][:2])
    views = [*many["local_views"]]
    assert len({one.tobytes() for one in views}) == 3
    assert many["global_views"][0].tobytes() != many["global_views"][1].tobytes()


def test_simclr_makes_two_views_and_dino_without_locals_has_no_such_output(example):
    sample = {"image": skimage.data.coffee(), "label": 1}
    views = example.simclr(48)(sample, seed=1, epoch=0, id=5)["views"]
    assert views.shape == (2, 3, 48, 48)
    assert views[0].tobytes() != views[1].tobytes()
    assert set(example.dino(0, 48)(sample, seed=1, epoch=0, id=5)) == {"global_views", "label"}


@pytest.mark.parametrize("count", [-1, 1, 65, 2.0, True, "6"])
def test_a_wrong_number_of_local_views_is_refused(example, count):
    with pytest.raises(ValueError, match="local_views to be 0, or an integer from 2 to 64, got"):
        example.dino(count)
