"""Promises of guarantees.md that other tests show by inner functions, in the batches of a Loader.

The images are painted: the color of a pixel tells its class, and its class tells the object. So a
target that is not where its image is shows in the pixels of a batch. One daemon serves all.
"""

import hashlib
import importlib
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from counting import counters, counters_at_rest
from daemons import serving
from user_folders import importing_from

from stoker import ops
from stoker.client import Loader
from stoker.dataset import schema, write
from stoker.pipeline import pipelines
from stoker.protocol.digest import batch_digest, digest_parts
from stoker.protocol.errors import SampleError, UsageError

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]
HERE = Path(__file__).parent
ROWS, OBJECTS = 8, 3
NAMES = (
    "targets", "turned", "smooth", "views", "scheduled", "chosen", "cut", "padded", "kept",
    "overlapping", "tiled", "one_call", "one_instance", "one_name", "synchronized",
    "shared_instance", "before", "edited", "dots", "one_window", "mixed_up", "watched",
)  # fmt: skip
DOTS, DOT_VIEWS = 4096, 16
LENGTHS = (3, 9, 5, 2, 8, 4, 7, 6)
DAMAGED = (3, 11, 12)
SAMPLES = 24
GOLDEN = {
    "turned": "7ec483e4aa88aeee37f60c80b2065b47",
    "tiled": "3d7ac4b0565f555a41503c4a3e0da2cb",
    "cut": "42f12aa2ff5bf443ccc3934c92c496e2",
}
"""Digests of the last batch of an epoch."""


def painted() -> Iterator[dict[str, object]]:
    """Rows: three rectangles of one class each on ground of class 0; the last row is all ground."""
    draw = np.random.default_rng(5)
    for number in range(ROWS):
        mask = np.zeros((56, 64), np.uint8)
        boxes, points = [], []
        for kind in range(1, OBJECTS + 1 if number < ROWS - 1 else 1):
            left, top = 21 * (kind - 1) + int(draw.integers(0, 6)), int(draw.integers(0, 36))
            mask[top : top + 14, left : left + 12] = kind
            boxes.append([left, top, left + 12, top + 14])
            points.append([left + 6.5, top + 7.5])
        kinds = np.arange(1, len(boxes) + 1)
        yield {
            "image": colors(mask),
            "mask": mask,
            "boxes": {"xyxy": np.float32(boxes).reshape(-1, 4), "kind": kinds},
            "keypoints": {"xy": np.float32(points).reshape(-1, 2), "kind": kinds},
            "label": number % 2,
            "words": bytes(range(LENGTHS[number])),
        }


def colors(mask: np.ndarray) -> np.ndarray:
    """The image of a mask: (..., 3) uint8."""
    return np.stack([mask * 60 + 20, 200 - mask * 30, mask * 7], axis=-1).astype(np.uint8)


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Loader]]:
    """load(pipeline, **arguments) -> a Loader."""
    folder = tmp_path_factory.mktemp("promises")
    fields = [
        schema.image(encoding="raw"),
        schema.mask(encoding="raw"),
        schema.boxes(fields={"kind": "int64"}),
        schema.keypoints(fields={"kind": "int64"}),
        schema.label(),
        schema.blob("words"),
    ]
    write(folder / "d", fields, painted())
    write(folder / "coded", [schema.image()], ({"image": row["image"]} for row in painted()))
    dot = {"image": np.full((1, 1, 3), 128, np.uint8)}
    write(folder / "dots", [schema.image(encoding="raw")], [dot] * DOTS)
    flags = [f"--dataset={name}={folder / name}" for name in ("d", "coded", "dots")]
    flags += ["--dataset=spoilt=promised_pipelines:Spoilt", f"--python-path={HERE}", "--workers=2"]
    flags += [f"--pipeline={name}=promised_pipelines:{name}" for name in NAMES]
    with serving(folder, *flags) as running:

        def make(pipeline: object, **more: object) -> Loader:
            arguments = {"batch_size": 4, "seed": 3, "device": "numpy", "dataset": "d", **more}
            return Loader(running.address, pipeline=pipeline, **arguments)

        make.address, make.dataset = running.address, folder / "d"
        yield make


def test_masks_boxes_and_keypoints_are_where_their_pixels_are(load):
    seen = 0
    with load("targets") as loader:
        for batch in (batch for _ in range(6) for batch in loader):
            inside = (batch.image == colors(batch.mask)).all(-1)
            assert inside[batch.mask > 0].all()
            for row in range(4):
                mask = batch.mask[row]
                kinds = batch.boxes[row]["kind"].tolist()
                assert set(np.unique(mask)) - {0} <= set(kinds) if kinds else True
                for kind, box in zip(kinds, batch.boxes[row]["xyxy"], strict=True):
                    y, x = np.nonzero(mask == kind)
                    assert box.tolist() == [x.min(), y.min(), x.max() + 1, y.max() + 1]
                    seen += 1
                points = batch.points[row]
                for kind, (x, y) in zip(points["kind"], points["xy"], strict=True):
                    assert mask[int(y), int(x)] == kind
    assert seen > 60


def test_a_turned_mask_has_the_pixels_of_its_image_and_no_new_value(load):
    with load("turned") as exact, load("smooth") as loader:
        for _ in range(3):
            for batch, other in zip(exact, loader, strict=True):
                wrong = (batch.image != colors(batch.mask)).any(-1)
                assert (batch.image[wrong] == 0).all(), "nothing but the fill of the corners"
                assert set(np.unique(other.mask)) <= set(range(OBJECTS + 1))
                assert (batch.mask == other.mask).all(), "the same decisions"


def test_views_share_what_is_in_shared_views_and_nothing_else(load):
    differ = 0
    with load("views", views=2) as loader:
        for batch in (batch for _ in range(4) for batch in loader):
            shared, own = (
                getattr(batch, name).reshape(-1, 2, 32, 32, 3) for name in ("shared", "own")
            )
            assert (shared[:, 0] == shared[:, 1]).all()
            differ += int((own[:, 0] != own[:, 1]).any((1, 2, 3)).sum())
    assert differ > 0


def test_a_schedule_follows_epoch_and_step(load):
    made = []
    with load("scheduled", total_epochs=3) as loader:
        for epoch in range(3):
            for step, batch in enumerate(loader):
                assert batch.step == step
                assert (batch.number == step).all()
                light = np.isin(batch.image, colors(np.arange(OBJECTS + 1)))
                made.append((epoch, bool(light.all())))
    assert all(kept for epoch, kept in made if epoch == 0)
    assert not any(kept for epoch, kept in made if epoch == 2)


def test_only_the_branch_that_is_taken_runs_and_the_replay_says_why(load):
    with load("chosen") as loader:
        for batch in loader:
            for row, label in enumerate(batch.label):
                known = np.isin(batch.image[row], colors(np.arange(OBJECTS + 1))).all()
                assert bool(known) == (label != 1)
                step = next(s for s in loader.replay_row(batch, row).steps if s.op == "invert")
                assert step.made == (label == 1)
                assert ("its branch was not taken: the condition" in step.why) == (label != 1)


def test_rows_are_mixed_with_their_masks(load):
    partners = 0
    with load("cut", params=True) as loader:
        for batch in (batch for _ in range(2) for batch in loader):
            assert (batch.image == colors(batch.mask)).all()
            partners += len(batch.params)
    assert partners > 0


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_padded_batch_is_as_long_as_the_longest_row_of_the_global_batch(load, ranks):
    for rank in range(ranks):
        options = {"rank": rank, "world_size": ranks, "batch_size": 4 // ranks}
        with load("padded", shuffle=False, **options) as loader:
            shapes = [batch.words.shape for batch in loader]
        assert shapes == [(4 // ranks, max(LENGTHS[:4])), (4 // ranks, max(LENGTHS[4:]))]


@pytest.mark.parametrize(
    ("read", "error", "message"),
    [
        (lambda batch: batch.real("index"), KeyError, "'index' is not a padded output .* 'words'"),
        (lambda batch: batch.digest, AttributeError, "verify=True"),
        (lambda batch: batch.chain, AttributeError, "verify=True"),
        (lambda batch: batch.params, AttributeError, "params=True"),
        (lambda batch: batch.to("cpu"), UsageError, "this batch has NumPy arrays"),
    ],
)
def test_what_a_batch_does_not_have_says_how_to_get_it(load, read, error, message):
    with load("padded") as loader, pytest.raises(error, match=message):
        read(next(iter(loader)))


def boxes_of(batch, row: int) -> dict[int, list[float]]:
    """The boxes of a row by their object."""
    boxes = batch.boxes[row]
    return dict(zip(boxes["kind"].tolist(), boxes["xyxy"].tolist(), strict=True))


def test_a_safe_crop_keeps_every_box_whole(load):
    cropped = 0
    with load("kept") as loader:
        for batch in (batch for _ in range(6) for batch in loader):
            for row, number in enumerate(batch.index.tolist()):
                boxes = boxes_of(batch, row)
                assert set(boxes) == set(range(1, OBJECTS + 1 if number < ROWS - 1 else 1))
                assert all((x1 - x0, y1 - y0) == (12, 14) for x0, y0, x1, y1 in boxes.values())
                cropped += int((batch.image[row, :56, :64] == 0).all(-1).any())
    assert cropped > 20


CUT = ("top", "left", "height", "width")


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    shared = sides.clip(0).prod()
    return shared / ((one[2:] - one[:2]).prod() + (other[2:] - other[:2]).prod() - shared)


def test_a_crop_by_overlap_keeps_what_its_record_says(load):
    whole, applied = [row["boxes"]["xyxy"] for row in painted()], 0
    with load("overlapping", params=True) as loader:
        for batch in (batch for _ in range(8) for batch in loader):
            for number, record in zip(batch.index, batch.params["iou_crop"], strict=True):
                if record["applied"] and len(whole[number]):
                    top, left, height, width = (record[name] for name in CUT)
                    crop = np.array([left, top, left + width, top + height])
                    assert max(overlap(box, crop) for box in whole[number]) >= record["option"]
                    applied += 1
    assert applied > 10


def test_boxes_of_a_mosaic_are_on_their_pixels(load):
    seen = 0
    with load("tiled") as loader:
        for batch in (batch for _ in range(4) for batch in loader):
            assert (batch.image == colors(batch.mask)).all()
            for row in range(4):
                boxes = batch.boxes[row]
                for kind, (x0, y0, x1, y1) in zip(boxes["kind"], boxes["xyxy"], strict=True):
                    inside = batch.mask[row, int(y0) : int(y1), int(x0) : int(x1)]
                    assert (inside == kind).all()
                    seen += 1
    assert seen > 60


@pytest.mark.parametrize(
    "names", [("one_call", "one_instance", "one_name"), ("synchronized",), ("shared_instance",)]
)
def test_what_decides_once_is_alike_in_image_and_mask(load, names):
    made = []
    for name in names:
        with load(name) as loader:
            batches = [batch for _ in range(3) for batch in loader]
            assert all((batch.image == colors(batch.mask)).all() for batch in batches)
            made.append([batch.image.tobytes() for batch in batches])
    assert all(other == made[0] for other in made)


def test_an_edit_leaves_what_other_ops_decide(load):
    """One op is put in, others are moved, and one is never made."""
    with load("before", params=True) as one, load("edited", params=True) as other:
        for batch, again in zip(one, other, strict=True):
            for name in ("horizontal_flip", "rotate"):
                assert (batch.params[name] == again.params[name]).all()


def test_a_hundred_thousand_rows_draw_alike_as_often_as_chance_has_it(load):
    """Each row draws four words of 32 bits."""
    with load("dots", dataset="dots", batch_size=256, views=DOT_VIEWS, params=True) as loader:
        batches = [b.params["gaussian_noise"]["seed"].copy() for _ in range(2) for b in loader]
    drawn = np.concatenate(batches)
    assert len(drawn) == 2 * DOTS * DOT_VIEWS
    assert len(np.unique(drawn, axis=0)) == len(drawn)
    words = drawn.view(np.uint32).T
    found = sum(len(drawn) - len(np.unique(word)) for word in words)
    expected = len(words) * len(drawn) ** 2 / 2**33
    assert abs(found - expected) < 5 * expected**0.5


def test_views_of_one_window_share_a_decode(load):
    before = counters_at_rest(load.address)["decodes_total"]
    with load("one_window", dataset="coded", views=3, total_epochs=1, prefetch=1) as loader:
        assert sum(len(batch.image) for batch in loader) == 3 * ROWS
        decodes = counters(load.address)["decodes_total"] - before
        assert ROWS <= decodes <= ROWS + 4, "one batch may be made ahead"


def test_a_bad_sample_is_never_mixed_into_a_row(load):
    alone = 0
    with load("mixed_up", dataset="spoilt", batch_size=8, on_error="mask") as loader:
        for batch in (batch for _ in range(4) for batch in loader):
            assert (batch.valid == ~np.isin(batch.requested, DAMAGED)).all()
            assert not batch.label[:, DAMAGED].any()
            assert not batch.label[~batch.valid].any()
            alone += int((batch.label[batch.valid].max(1) == 1).sum())
    assert alone > 0, "the partner of some was bad"


def test_a_batch_that_fails_names_its_first_bad_row(load):
    for seed in range(2):
        options = {"dataset": "spoilt", "batch_size": SAMPLES, "seed": seed}
        with load("mixed_up", on_error="mask", **options) as loader:
            batch = next(iter(loader))
            first = int(batch.requested[~batch.valid][0])
        with load("mixed_up", **options) as loader, pytest.raises(SampleError) as caught:
            next(iter(loader))
        assert caught.value.details["id"] == first


def test_a_row_is_the_same_in_any_batch(load):
    found = []
    for options in ({"batch_size": 1}, {"batch_size": 8}, {"batch_size": 3, "shuffle": False}):
        with load("turned", last="pad", **options) as loader:
            rows = {}
            for batch in loader:
                for row in np.flatnonzero(batch.valid):
                    rows[int(batch.index[row])] = batch.image[row].tobytes()
        found.append(rows)
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == ROWS


def states() -> tuple:
    return random.getstate(), np.random.get_state()[1].tobytes(), torch.get_rng_state().tolist()


def test_global_generators_are_neither_read_nor_written(load):
    """In the client, and in the two workers, whose state the source itself reports."""
    seen, epochs = set(), []
    for seed in (1, 2):
        torch.manual_seed(seed)
        random.seed(seed)
        before = states()
        with load("watched", dataset="spoilt", exclude=DAMAGED, batch_size=7) as loader:
            batches = [batch for _ in range(2) for batch in loader]
        seen |= {int(state) for batch in batches for state in batch.state}
        epochs.append([batch.image.tobytes() for batch in batches])
        assert states() == before
    assert len(seen) <= 2
    assert epochs[0] == epochs[1]


CODE = """
from stoker import ops
from stoker.pipeline import pipeline


@pipeline
def made(sample):
    return {"image": ops.invert(sample.image, p=1.0)}
"""


def test_a_pipeline_is_the_one_that_was_imported_whatever_its_file_says_now(load, tmp_path):
    code = tmp_path / "imported_once.py"
    code.write_text(CODE)
    with importing_from(tmp_path):
        made = importlib.import_module("imported_once").made
    code.write_text(code.read_text().replace("ops.invert", "ops.vertical_flip"))
    with load(made, shuffle=False) as loader:
        batch = next(iter(loader))
    plain = np.stack([row["image"] for row in painted()][:4])
    assert (batch.image == 255 - plain).all()


def test_loaders_of_one_pipeline_in_turns_get_their_own_bytes(load):
    def epoch(loader) -> list[bytes]:
        return [batch.image.tobytes() for batch in loader]

    alone = []
    for seed in (1, 2):
        with load("turned", seed=seed, batch_size=1) as loader:
            alone.append(epoch(loader))
    with load("turned", seed=1, batch_size=1) as one, load("turned", seed=2, batch_size=1) as two:
        together = [(a.image.tobytes(), b.image.tobytes()) for a, b in zip(one, two, strict=True)]
    assert [list(part) for part in zip(*together, strict=True)] == alone


def test_a_sample_comes_as_often_as_its_weight_says(load):
    weights = np.array([1, 2, 3, 4, 5, 6, 7, 12]) / 40
    counts = np.zeros(ROWS, int)
    with load("cut", weights=weights, batch_size=8) as loader:
        for _ in range(8):
            ids = np.concatenate([batch.index for batch in loader])
            came = np.bincount(ids, minlength=ROWS)
            assert np.isin(came - np.floor(weights * ROWS), (0, 1)).all()
            counts += came
    assert np.abs(counts - weights * ROWS * 8).max() <= 1


def test_a_cursor_fits_into_a_kibibyte_and_every_parameter_counts(load):
    freeze = dict.fromkeys(("brightness", "horizontal_flip", "rotate"), 7)
    with load("before", freeze=freeze, exclude=[1, 2], views=2) as loader:
        assert len(json.dumps(loader.state_dict()).encode()) <= 1024
    ids = set()
    for most in (1.3, 1.31):
        made = pipelines({"image": [ops.Brightness((0.7, most))]})
        with load(made) as loader:
            ids.add(loader.spec.pipeline)
    assert len(ids) == 2


def test_a_replay_in_another_process_has_the_hashes_of_the_delivered_bytes(load):
    with load("turned") as loader:
        batch = next(iter(loader))
    words = ["replay", "promised_pipelines:turned", load.dataset, "--python-path", HERE, "--json"]
    words += ["--id", batch.index[1], "--epoch", batch.epoch, "--seed", 3]
    command = [sys.executable, "-m", "stoker.server", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    outputs = {output["name"]: output["blake2b"] for output in json.loads(done.stdout)["outputs"]}
    assert outputs == {
        name: hashlib.blake2b(batch[name][1].tobytes(), digest_size=16).hexdigest()
        for name in ("image", "mask")
    }


def test_the_bytes_are_those_of_the_day_they_were_frozen(load):
    """Raw images, so that no decoder counts; the epoch of a fresh stream of three pipelines."""
    found = {}
    for name in ("turned", "tiled", "cut"):
        with load(name) as loader:
            chain = [batch_digest(digest_parts(b), b.epoch, b.step) for b in loader]
            found[name] = chain[-1]
    assert found == GOLDEN
