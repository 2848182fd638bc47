"""A source with any content is scanned and read, or refused with a typed error.

Seeded mutations of small valid sources: bytes changed, taken out, doubled and spliced. A mutation
that is still a source is read to its last value.
"""

import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from stoker.dataset.format.fields import Schema
from stoker.dataset.format.image_conversion import Conversion
from stoker.dataset.limits import CodecError
from stoker.dataset.sources.common.outlines import paint
from stoker.dataset.sources.common.readers import BadItemError
from stoker.dataset.sources.common.recipe import Recipe
from stoker.dataset.sources.common.scan import Request
from stoker.dataset.sources.kinds import scan_source
from stoker.dataset.sources.open_reader import open_reader
from stoker.protocol.errors import UsageError

MUTATIONS = 200
PIECES = [
    b"",
    b"\0",
    b"\xff",
    b"-1",
    b"1e999",
    b"NaN",
    b"null",
    b'"',
    b",",
    b"\n",
    b"[[",
    b"9" * 40,
]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Change a few places."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(changed) + 1)
        stop = min(len(changed), start + rng.choice([0, 1, 1, 2, 8]))
        piece = rng.choice([*PIECES, bytes([rng.randrange(256)]), bytes(changed[stop : stop + 9])])
        changed[start:stop] = piece
    return bytes(changed)


def coco(root: Path) -> Path:
    image = {"id": 1, "file_name": "a.jpg", "height": 20, "width": 30}
    code = {"size": [20, 30], "counts": "0Yc0"}
    one = {"id": 1, "image_id": 1, "category_id": 3, "bbox": [1, 2, 9.5, 8], "area": 70.0}
    shapes = [[[1, 2, 10, 2, 10, 9]], code, {"size": [20, 30], "counts": [5, 595]}]
    annotations = [
        {**one, "id": number, "segmentation": shape, "keypoints": [1, 2, 2]}
        for number, shape in enumerate(shapes)
    ]
    category = {"id": 3, "name": "cat", "keypoints": ["nose"]}
    described = {"images": [image], "annotations": annotations, "categories": [category]}
    (root / "coco.json").write_text(json.dumps(described))
    return root / "coco.json"


def table(root: Path) -> Path:
    (root / "a.csv").write_text('image,label,x,text\na.jpg,cat,1.5,"a, b"\nb.jpg,dog,2,c\n')
    return root / "a.csv"


def labels(root: Path) -> Path:
    (root / "images").mkdir()
    (root / "labels").mkdir()
    (root / "images" / "a.jpg").touch()
    (root / "labels" / "a.txt").write_text("0 0.5 0.5 0.2 0.2\n1 0.1 0.1 0.9 0.1 0.5 0.9\n")
    return root / "labels" / "a.txt"


def description(root: Path) -> Path:
    labels(root)
    (root / "data.yaml").write_text("train: images\nnames: {0: a, 1: b}\nkpt_shape: [1, 3]\n")
    return root / "data.yaml"


def arrays(root: Path) -> Path:
    np.savez(root / "a.npz", images=np.zeros((3, 4, 5, 3), np.uint8), weight=np.arange(3.0))
    return root / "a.npz"


def compressed(root: Path) -> Path:
    rows = np.arange(180, dtype=np.uint8).reshape(3, 4, 5, 3)
    np.savez_compressed(root / "a.npz", images=rows, label=np.arange(3))
    return root / "a.npz"


def read_all(source: Path, request: Request) -> str:
    """Scan a source and read all of it; return what came of it."""
    try:
        scan = scan_source(str(source), "auto", request)
    except UsageError as error:
        return "refused" if str(error) else "refused without a word"
    recipe = Recipe(
        source=str(scan.root),
        reader=scan.reader,
        settings=dict(scan.settings),
        containers=tuple(scan.containers),
        aligned=scan.aligned,
        schema=Schema(scan.fields),
        conversion=Conversion(),
        max_bad=1,
    )
    outcome = "read"
    with open_reader(recipe) as reader:
        for item in scan.items:
            try:
                assert reader.read(item)
            except BadItemError as error:
                outcome = "bad" if error.reason else "bad without a word"
    return "bad" if scan.bad else outcome


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "request_"),
    [
        (coco, Request(masks="semantic")),
        (coco, Request(masks="instance", clip=True)),
        (table, Request()),
        (labels, Request()),
        (description, Request()),
        (arrays, Request()),
        (compressed, Request()),
    ],
    ids=["coco", "coco-clip", "table", "labels", "description", "arrays", "compressed"],
)
def test_mutated_sources(tmp_path, make, request_):
    path = make(tmp_path)
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes(b"a picture")
    source = tmp_path if path.suffix in (".txt", ".yaml") else path
    data, seen = path.read_bytes(), Counter()
    assert read_all(source, request_) != "refused"
    for seed in range(MUTATIONS):
        path.write_bytes(mutated(data, random.Random(seed)))
        try:
            seen[read_all(source, request_)] += 1
        except Exception as error:
            error.add_note(f"mutation {seed} of {make.__name__}")
            raise
    assert 1 < len(seen) <= len(seen.keys() & {"read", "bad", "refused"}), seen


def test_mutated_outlines():
    rng, seen = random.Random(0), Counter()
    for text in (
        b"[[1, 2, 10, 2, 10, 9]]",
        b'{"size": [20, 30], "counts": "0Yc0"}',
        b'{"size": [20, 30], "counts": [5, 595]}',
    ):
        for _ in range(3 * MUTATIONS):
            try:
                mask = paint([(1, mutated(text, rng))], (20, 30), relative=False)
                assert mask.shape == (20, 30)
                seen["painted"] += 1
            except CodecError as error:
                seen["refused" if str(error) else "refused without a word"] += 1
    assert seen.keys() == {"painted", "refused"}, seen
