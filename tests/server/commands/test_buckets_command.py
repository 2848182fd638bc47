"""`stoker buckets`: what it says adds up, and is what the Loader's plan has."""

import json

import numpy as np
import pytest
from PIL import Image

from stoker.client import Buckets
from stoker.dataset import open_dataset, schema, write
from stoker.order.buckets.sizes import bucket_size
from stoker.protocol.errors import BuildError, UnknownNameError, UsageError
from stoker.server.bucket_rows import plan_buckets
from stoker.server.commands.buckets import buckets
from stoker.server.commands.explain import explain
from stoker.server.commands.preview import preview
from stoker.server.commands.replay import replay

SIZES = [(40, 40)] * 9 + [(80, 40)] * 6 + [(40, 90)] * 3 + [(20, 200)]
FLAGS = ("--max-area", 64 * 64, "--divisor", 16, "--batch-size", 4)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    """19 pictures of four shapes, one of them 1:10."""
    dest = tmp_path_factory.mktemp("buckets") / "shapes"
    rows = [{"image": np.full((h, w, 3), n, np.uint8)} for n, (w, h) in enumerate(SIZES)]
    write(dest, [schema.image(encoding="raw")], rows)
    return dest


def test_the_table_and_the_account(shapes, run):
    out = run(buckets, shapes, *FLAGS)
    assert "4 buckets of 19 images" in out
    for text in ("64x64", "80x32", "16x208", "32x96", "epoch 2:", "0 dropped"):
        assert text in out, out
    assert "warning: 32x96 is under-filled: its 3 images fill a batch of 4 once in 2 epochs" in out
    assert "warning: 16x208 is under-filled: its 1 images fill a batch of 4 once in 4 epochs" in out


def test_json_lists_every_sample(shapes, run):
    found = json.loads(run(buckets, shapes, *FLAGS, "--json", "--epochs", 4))
    with open_dataset(shapes) as dataset:
        plan = plan_buckets(dataset, Buckets(max_area=64 * 64, divisor=16), 4)
    assert found["digest"] == plan.digest
    assert sum(row["samples"] for row in found["buckets"]) == found["samples"] == len(SIZES)
    waiting = 0
    for epoch in found["epochs"]:
        assert waiting == epoch["carried_in"]
        waiting = len(epoch["carried"])
        assert epoch["carried_in"] + 19 == epoch["delivered"] + waiting + len(epoch["dropped"])
        assert epoch["delivered"] == 4 * epoch["steps"]
        assert sum(part["delivered"] for part in epoch["parts"]) == epoch["delivered"]
    square = found["buckets"][0]
    assert (square["width"], square["height"], square["samples"]) == (64, 64, 9)
    assert square["fit"] == {
        "mean_loss": 0.0, "worst_loss": 0.0, "mean_scale": 1.6, "upscaled": 9, "merged": 0,
    }  # fmt: skip
    wide = next(row for row in found["buckets"] if row["width"] == 80)
    assert bucket_size(80, 40, Buckets(max_area=64 * 64, divisor=16)) == (80, 32)
    assert wide["fit"]["mean_loss"] == pytest.approx(1 - 32 / 40)  # 40 rows, of which 32 stay


@pytest.mark.parametrize(("leftovers", "kept"), [("merge", 3), ("drop", 4)])
def test_merged_and_dropped_are_told(shapes, run, leftovers, kept):
    found = json.loads(run(buckets, shapes, *FLAGS, "--json", "--leftovers", leftovers))
    assert len(found["buckets"]) == kept
    assert found["merged"] == ([18] if leftovers == "merge" else [])
    for epoch in found["epochs"]:
        assert bool(epoch["dropped"]) == (leftovers == "drop")
        assert not epoch["carried"] or leftovers == "merge"
    out = run(buckets, shapes, *FLAGS, "--leftovers", leftovers)
    said = "warning: 32x96 fills no batch: its 3 images are never delivered"
    assert (said in out) == (leftovers == "drop")


def test_the_plot_shows_every_bucket(shapes, run, tmp_path):
    run(buckets, shapes, *FLAGS, "--plot", tmp_path / "plan.png")
    with Image.open(tmp_path / "plan.png") as picture:
        pixels = np.asarray(picture)
    left = pixels[:, :500].astype(int)
    drawn = (left.max(2) - left.min(2)) > 40
    assert drawn[24:506, 25].mean() > 0.9  # all outlines share the left edge
    ends = [24 + 2 * round(side * 480 / 208 / 2) for side in (64, 80, 32)]
    for end in ends:
        assert drawn[300:500, end - 3 : end + 4].any(1).any(), end


def test_what_cannot_be_planned_is_refused(shapes, run):
    with pytest.raises(UsageError, match="give max_area"):
        run(buckets, shapes, "--batch-size", 4)
    with pytest.raises(UsageError, match="a batch is larger than every bucket"):
        run(buckets, shapes, "--max-area", 4096, "--divisor", 16, "--batch-size", 50)
    with pytest.raises(UnknownNameError, match="no field 'photo'"):
        run(buckets, shapes, *FLAGS, "--field", "photo")
    with pytest.raises(UsageError, match=r"multiple of divisor=16; .* id 0 has 40x40 pixels"):
        run(buckets, shapes, "--no-resize", "--divisor", 16, "--batch-size", 4)
    assert "4 buckets" in run(buckets, shapes, "--no-resize", "--divisor", 1, "--batch-size", 2)


def test_other_commands_are_told_a_bucket(photos, run, tmp_path):
    name = ("command_pipelines:fitted", photos)
    assert "uint8[48x80x3]" in run(explain, *name, "--bucket", "80x48")
    found = json.loads(run(replay, *name, "--id", 2, "--epoch", 1, "--bucket", "80x48", "--json"))
    assert found["outputs"][0]["shape"] == [48, 80, 3]
    run(preview, *name, "--bucket", "48x80", "--out", tmp_path / "sheet.png", "--columns", 2)
    assert (tmp_path / "sheet.png").stat().st_size > 1000
    with pytest.raises(BuildError, match="and there are no buckets"):
        run(explain, *name)
    for wrong in ("80", "80x", "0x9", "axb"):
        with pytest.raises(UsageError, match="expected WIDTHxHEIGHT in pixels, such as"):
            run(explain, *name, "--bucket", wrong)
