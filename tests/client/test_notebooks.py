"""What a notebook shows of a batch, a replay and a loader: their own pixels, and no markup."""

import base64
import copy
import io
import itertools
import json
import pickle
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import skimage.data
from PIL import Image

from stoker import ops
from stoker.client import Batch, Loader
from stoker.client.loader_html import loader_html
from stoker.dataset import schema, write
from stoker.pipeline import pipeline
from stoker.pipeline.showing.graph_svg import MOST_BOXES
from stoker.protocol.ragged import Ragged

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_private_daemons")]
CAT = skimage.data.chelsea()
SVG = "{http://www.w3.org/2000/svg}"
EVIL = "<script>alert(1)</script>"


NOTEBOOK = """
import json, sys, nbclient, nbformat
cells = [nbformat.v4.new_code_cell(text) for text in json.loads(sys.argv[1])]
notebook = nbformat.v4.new_notebook(cells=cells)
nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
print(json.dumps([one.data["text/html"] for cell in cells for one in cell.outputs]))
"""
"""Prints what the kernel of a notebook sent as HTML; a process of its own ends with its loops."""


@pipeline
def plain(sample):
    return {"image": sample.image, "label": sample.label}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("notebook") / "packed"
    rows = [{"image": CAT[9 * n : 9 * n + 60, :80].copy(), "label": n % 3} for n in range(12)]
    write(path, [schema.image(encoding="raw"), schema.label()], rows)
    return path


@pytest.fixture
def loader(dataset: Path) -> Iterator[Loader]:
    options = {"batch_size": 12, "seed": 3, "name": EVIL}
    with Loader(dataset, pipeline=plain, device="numpy", **options) as opened:
        yield opened


def pictures(html: str) -> list[np.ndarray]:
    """The pictures of some HTML, as Pillow reads them."""
    found = re.findall(r'src="data:image/png;base64,([^"]*)"', html)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))) for data in found]


def test_a_batch_shows_its_first_rows_with_their_ids(loader: Loader) -> None:
    batch = next(iter(loader))
    html = batch._repr_html_()
    assert html.startswith("<p><strong>Batch, epoch 0, step 0</strong></p>")
    shown = pictures(html)
    assert len(shown) == 8
    for picture, image in zip(shown, batch.image, strict=False):
        assert np.array_equal(picture, image)
    first = f"image: label {batch.label[0]}, index {batch.index[0]}"
    assert f'<figcaption style="font-size:85%;overflow-wrap:anywhere">{first}<' in html
    assert "<tr><td>image</td><td>(12, 60, 80, 3) uint8</td></tr>" in html


def test_a_look_is_no_read_of_valid(dataset: Path) -> None:
    with Loader(dataset, pipeline=plain, device="numpy", batch_size=8, last="pad") as loader:
        batch = next(iter(loader))
        batch._repr_html_()
        assert not batch._marks.is_valid_read


def test_tensors_and_entries_that_are_no_pictures(loader: Loader) -> None:
    torch = pytest.importorskip("torch")
    image = np.moveaxis(next(iter(loader)).image, -1, 1)
    boxes = Ragged("xyxy", np.zeros((3, 4), np.float32), np.array([0, 1, 3]), {})
    batch = Batch(
        {EVIL: torch.from_numpy(image.copy()), "half": torch.zeros((2, 9, 9)).bfloat16(),
         "boxes": boxes, "texts": ["a", EVIL], "none": None, "rows": [CAT[:60, :80]] * 2},
    )  # fmt: skip
    html = batch._repr_html_()
    assert "<script" not in html
    shown = pictures(html)
    assert [picture.shape for picture in shown] == [(60, 80, 3)] * 8 + [(9, 9)] * 2 + [
        (60, 80, 3)
    ] * 2
    assert np.array_equal(shown[0], np.moveaxis(image[0], 0, -1))


def test_a_sample_and_its_row_show_their_images_and_values(loader: Loader) -> None:
    batch = next(iter(loader))
    number = int(batch.index[2])
    sample, row = loader.dataset[number], loader.row(number)
    html = sample._repr_html_()
    title = f"<p><strong>Sample at place {number}, as it is stored</strong></p>"
    assert html.startswith(title)
    for shown in (html, row._repr_html_()):
        (picture,) = pictures(shown)
        assert np.array_equal(picture, CAT[9 * number : 9 * number + 60, :80])
        assert f"<tr><td>label</td><td>{number % 3}</td></tr>" in shown
        assert "<tr><td>image</td><td>(60, 80, 3) uint8</td></tr>" in shown
    assert f"<strong>Outputs of sample {number} in epoch 0<" in row._repr_html_()
    assert loader.dataset[-1]._repr_html_().startswith("<p><strong>Sample at place 11, as")


def test_a_sample_is_a_dict_for_all_others(loader: Loader) -> None:
    """Also for frameworks that copy it, send it to a worker, or make a batch of several."""
    sample = loader.dataset[1]
    for same in (sample, copy.copy(sample), pickle.loads(pickle.dumps(sample))):
        assert isinstance(same, dict)
        assert list(same) == ["image", "label"]
        assert same._repr_html_() == sample._repr_html_()
    evil = type(sample)({EVIL: np.zeros((9, 9)), "b": EVIL}, EVIL)._repr_html_()
    assert "<script" not in evil
    collate = pytest.importorskip("torch.utils.data").default_collate
    both = collate(  # torch warns of arrays that cannot be written
        [type(sample)({name: np.copy(value) for name, value in loader.dataset[n].items()})
         for n in (1, 2)]
    )  # fmt: skip
    assert both["label"].tolist() == [1, 2]
    assert both["image"].shape == (2, 60, 80, 3)


def test_a_batch_says_how_to_get_a_row(loader: Loader) -> None:
    batch = next(iter(loader))
    with pytest.raises(KeyError, match=r"Row 3 of one is batch\['image'\]\[3\]; loader.replay_row"):
        batch[3]
    with pytest.raises(KeyError, match="'imgae': this batch has image, label, index, requested, v"):
        batch["imgae"]
    assert 3 not in batch
    assert batch.get("imgae") is None


def test_an_empty_batch() -> None:
    assert Batch({})._repr_html_().startswith("<p><strong>Batch</strong></p>")


@pipeline
def unfinished(sample):
    return {"image": ops.brightness(sample.image, **{EVIL: 1})}


def test_a_pipeline_shows_its_graph_or_why_it_has_none() -> None:
    html = plain._repr_html_()
    assert html.startswith("<p><strong>&lt;pipeline &#x27;plain&#x27; from ")
    assert "<summary>as text</summary><pre>0 = input field &#x27;image&#x27;\n" in html
    assert "output &#x27;label&#x27; = 1" in html
    assert html.count("<svg ") == 1
    html = unfinished._repr_html_()
    assert "<script" not in html
    assert "<pre>TypeError: brightness() got an unexpected keyword argument" in html


@pipeline
def branching(sample, ctx):
    image, mask = ops.random_crop(sample.image, sample.mask, size=(64, 64))
    if image.mean() > 100:
        image = ops.invert(image)
    image, mask = ops.horizontal_flip(image, mask, p=0.5) if ctx.epoch > 3 else (image, mask)
    return {"image": image, "mask": mask, EVIL: sample.label}


Box = tuple[float, float, float]
"""Left, right and top of a box."""


def drawn(svg: str) -> tuple[list[tuple[str, Box]], list[tuple[str, str]]]:
    """The boxes of a picture with their first words, and the lines between boxes, by their words.

    A line that passes a row of boxes is several paths: each begins where the last one ended.
    """
    root = ElementTree.fromstring(svg)
    boxes: list[tuple[str, Box]] = []
    for group in root.iter(f"{SVG}g"):
        (rect,), (word, *_) = group.iter(f"{SVG}rect"), group.iter(f"{SVG}text")
        left, width, top = (float(rect.attrib[name]) for name in ("x", "width", "y"))
        boxes.append((word.text or "", (left, left + width, top)))

    def box_at(x: float, y: float, *, below: bool) -> str:
        at = [w for w, (left, right, top) in boxes
              if left <= x <= right and abs(y - top - 40 * below) < 1]  # fmt: skip
        return at[0] if at else ""

    paths = [
        [float(number) for number in re.findall(r"[\d.]+", path.attrib["d"])]
        for path in root.iter(f"{SVG}path")
    ]
    lines, start = [], ""
    for x, y, *_, to_x, to_y in paths:
        start = box_at(x, y, below=True) or start
        if end := box_at(to_x, to_y, below=False):
            lines.append((start, end))
    return boxes, lines


def picture_of(made: Any) -> str:
    return re.findall(r"<svg .*</svg>", made._repr_html_())[0]


def test_the_picture_of_a_pipeline_has_a_box_for_each_step_and_lines_between_them() -> None:
    boxes, lines = drawn(picture_of(plain))
    assert sorted(word for word, _ in boxes) == ["image", "image", "label", "label"]
    assert lines == [("image", "image"), ("label", "label")]
    boxes, lines = drawn(picture_of(branching))
    assert Counter(word for word, _ in boxes) == Counter(
        ["image"] * 2 + ["mask"] * 2 + ["label", EVIL, "epoch", "mean"] + ["gt"] * 2
        + ["random_crop"] * 2 + ["invert"] + ["horizontal_flip"] * 2 + ["if"] * 3
    )  # fmt: skip
    assert Counter(lines) == Counter({
        ("image", "random_crop"): 2,  # it decides for the mask too
        ("mask", "random_crop"): 1, ("random_crop", "mean"): 1, ("mean", "gt"): 1,
        ("random_crop", "invert"): 1, ("gt", "if"): 3, ("invert", "if"): 1,
        ("random_crop", "if"): 2, ("epoch", "gt"): 1, ("if", "horizontal_flip"): 2,
        ("random_crop", "horizontal_flip"): 1, ("horizontal_flip", "if"): 2, ("if", "if"): 1,
        ("if", "image"): 1, ("if", "mask"): 1, ("label", EVIL): 1,
    })  # fmt: skip


@pytest.mark.parametrize("made", [plain, branching])
def test_boxes_of_a_picture_do_not_overlap(made) -> None:
    svg = picture_of(made)
    boxes, _ = drawn(svg)
    wide = float(ElementTree.fromstring(svg).attrib["width"])
    for (_, one), (_, two) in itertools.combinations(boxes, 2):
        assert abs(one[2] - two[2]) > 60 or one[1] < two[0] or two[1] < one[0]
    assert all(0 <= left < right <= wide for _, (left, right, _) in boxes)


def test_a_pipeline_of_very_many_steps_is_text_alone() -> None:
    @pipeline
    def long(sample):
        image = sample.image
        for n in range(MOST_BOXES):
            image = ops.invert(image, stream=f"invert{n}")
        return {"image": image}

    html = long._repr_html_()
    assert "<svg" not in html
    assert "as text" in html


def test_a_real_kernel_shows_pipeline_batch_row_and_loader(dataset: Path, tmp_path: Path) -> None:
    """Jupyter receives these forms; nbclient runs the kernel."""
    (tmp_path / "notebook_pipelines.py").write_text(
        "from stoker.pipeline import pipeline\n\n@pipeline\ndef plain(sample):\n"
        "    return {'image': sample.image, 'label': sample.label}\n"
    )
    cells = [
        f"from stoker.client import Loader\nfrom notebook_pipelines import plain\n"
        f"loader = Loader({str(dataset)!r}, pipeline=plain, batch_size=4, device='numpy')\nplain",
        "batch = next(iter(loader))\nbatch",
        "loader.replay_row(batch, 0)",
        "loader.dataset[0]",
        "loader",
        "loader.close()",
    ]
    command = [sys.executable, "-c", NOTEBOOK, json.dumps(cells)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    shown = json.loads(done.stdout)
    assert [len(drawn(re.findall(r"<svg .*</svg>", shown[0])[0])[0]), shown[0].count("<svg ")] == [
        4, 1,
    ]  # fmt: skip
    assert [len(pictures(html)) for html in shown] == [0, 4, 2, 1, 0]
    assert "<td>open; " in shown[4]


def test_a_loader_shows_its_state_and_needs_no_page(loader: Loader) -> None:
    html = loader._repr_html_()
    assert f"<p><strong>{escape(repr(loader))}</strong></p>" in html
    assert "<td>open; no verdict yet: it takes two batches of an epoch</td>" in html
    assert "href" not in html
    list(loader)
    assert "<td>open; " in loader._repr_html_()
    loader.close()
    assert "<td>closed</td>" in loader._repr_html_()


@pytest.mark.parametrize(
    ("page", "is_remote", "linked"),
    [
        ("http://127.0.0.1:9471/", False, True),
        ("http://[::1]:9471/", False, True),
        ("http://127.0.0.1:9471/", True, False),
        ("http://localhost:9471/", True, False),
        ("http://node7:9471/", True, True),
        ("javascript:alert(1)", False, False),
        ("http://[", False, False),
        ("http:///x", False, False),
        ("", False, False),
    ],
)
def test_a_link_leads_to_a_page_that_this_host_reaches(page, is_remote, linked) -> None:
    html = loader_html("a loader", None, page, is_remote=is_remote)
    assert (f'href="{page}"' in html) == linked
    assert ("href" in html) == linked


def test_an_address_is_escaped() -> None:
    html = loader_html(EVIL, None, f'http://h/"onclick="{EVIL}', is_remote=False)
    assert "<script" not in html
    assert '"onclick' not in html


def test_a_replay_shows_fields_steps_and_outputs(loader: Loader) -> None:
    batch = next(iter(loader))
    html = loader.replay(int(batch.index[0]), epoch=0)._repr_html_()
    assert html.startswith(f"<p><strong>Sample {batch.index[0]}, epoch 0, visit 0, view 0<")
    for picture in pictures(html):
        assert np.array_equal(picture, batch.image[0])
    assert "fields: image (60, 80, 3)" in html
    assert "outputs: image (60, 80, 3)" in html
