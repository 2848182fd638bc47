"""Promises of guarantees.md that other tests show by inner functions, in the batches of a Loader.

The images are painted: the color of a pixel tells its class, and its class tells the object. So a
target that is not where its image is shows in the pixels of a batch. One daemon serves all.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from daemons import serving

from stoker.client import Loader
from stoker.dataset import schema, write
from stoker.protocol.errors import UsageError

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
ROWS, OBJECTS = 8, 3
NAMES = ("targets", "turned", "smooth", "views", "scheduled", "chosen", "cut", "padded")
LENGTHS = (3, 9, 5, 2, 8, 4, 7, 6)


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
    named = [f"--pipeline={name}=promised_pipelines:{name}" for name in NAMES]
    with serving(folder, f"--dataset=d={folder / 'd'}", f"--python-path={HERE}", *named) as running:

        def make(name: str, **more: object) -> Loader:
            arguments = {"batch_size": 4, "seed": 3, "device": "numpy", **more}
            return Loader(running.address, dataset="d", pipeline=name, **arguments)

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
