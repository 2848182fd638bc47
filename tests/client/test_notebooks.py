"""What a notebook shows of a batch, a replay and a loader: their own pixels, and no markup."""

import base64
import io
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from PIL import Image

from stoker import ops
from stoker.client import Batch, Loader
from stoker.client.loader_html import loader_html
from stoker.dataset import schema, write
from stoker.pipeline import pipeline
from stoker.protocol.ragged import Ragged

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_private_daemons")]
CAT = skimage.data.chelsea()
EVIL = "<script>alert(1)</script>"


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


def test_an_empty_batch() -> None:
    assert Batch({})._repr_html_().startswith("<p><strong>Batch</strong></p>")


@pipeline
def unfinished(sample):
    return {"image": ops.brightness(sample.image, **{EVIL: 1})}


def test_a_pipeline_shows_its_graph_or_why_it_has_none() -> None:
    html = plain._repr_html_()
    assert html.startswith("<p><strong>&lt;pipeline &#x27;plain&#x27; from ")
    assert "<pre>0 = input field &#x27;image&#x27;\n" in html
    assert "output &#x27;label&#x27; = 1" in html
    html = unfinished._repr_html_()
    assert "<script" not in html
    assert "<pre>TypeError: brightness() got an unexpected keyword argument" in html


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
