"""What pages promise to refuse is refused by a Loader, by a name that is served, and by commands.

One daemon serves them all. `refusals` says how to add a promise.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import refusals
from commands import call
from daemons import Daemon, serving
from page_blocks import pages
from user_folders import importing_from

from stoker import ops
from stoker.client import Buckets, Loader
from stoker.dataset import schema, write
from stoker.pipeline import pipeline, sample_frames
from stoker.protocol.errors import BuildError, DatasetError, ResumeError, StokerError

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
PROMISES = refusals.promises()
EYES = ("left_eye", "right_eye")
PROOFS = refusals.proofs()
UNSAID = (
    "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/", "docs/contracts/", "docs/decisions.md",
    "docs/guarantees.md", "examples/",
)  # fmt: skip
"""Pages whose sentences other tests hold, or that tell what was decided."""
PAGES = [page for page in pages(Path(__file__).parents[2]) if not page.startswith(UNSAID)]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two samples with a field of every kind."""
    folder = tmp_path_factory.mktemp("refusals") / "packed"
    rng = np.random.default_rng(3)
    mask = rng.integers(0, 4, (32, 32), np.uint8)
    fields = [
        schema.image(encoding="raw"),
        schema.image("depth", encoding="raw", dtype="float32", channels=1),
        schema.image("clean", encoding="raw"),
        schema.image("ct", encoding="bands", dtype="float32", channels=1),
        schema.array("numbers", "int32", (32, 32, 3)),
        schema.blob("words"),
        schema.image("wide", encoding="raw", dtype="uint16", channels=1),
        schema.flow("flow"),
        schema.normals("normals"),
        schema.label("grade"),
        schema.array("heat", "float32", (32, 32)),
        schema.array("face_bbox", "float32", (4,)),
        schema.array("landmarks", "float32", (5, 2)),
        schema.mask(encoding="raw"),
        schema.relative(schema.mask("small", encoding="raw")),
        schema.boxes(),
        schema.with_classes(schema.keypoints("points", {"keypoint": "int64"}), EYES),
        schema.label(classes=("cat", "dog", "eel", "fox")),
        schema.scalar("weight"),
        schema.blob("text"),
    ]  # fmt: skip
    row = {
        "image": rng.integers(0, 256, (32, 32, 3), np.uint8),
        "depth": rng.random((32, 32, 1), np.float32),
        "clean": rng.integers(0, 256, (32, 32, 3), np.uint8),
        "ct": np.linspace(-1000, 1200, 32 * 32, dtype=np.float32).reshape(32, 32, 1),
        "numbers": rng.integers(0, 9, (32, 32, 3), np.int32),
        "words": b"some words",
        "wide": rng.integers(0, 65536, (32, 32, 1), np.uint16),
        "flow": rng.random((32, 32, 2), np.float32),
        "normals": rng.random((32, 32, 3), np.float32),
        "grade": 10,
        "heat": rng.random((32, 32), np.float32),
        "face_bbox": np.float32([2, 3, 10, 12]),
        "landmarks": rng.random((5, 2), np.float32),
        "mask": mask,
        "small": mask[::2, ::2],
        "boxes": {"xyxy": [[2, 3, 10, 12]]},
        "points": {"xy": [[4, 5], [20, 9]], "keypoint": [0, 1]},
        "label": 1,
        "weight": 0.5,
        "text": b"a word",
    }
    write(str(folder), fields, [row, row])
    return folder


@pytest.fixture(scope="module")
def daemon(session_folder: Path, dataset: Path) -> Iterator[Daemon]:
    """A daemon that serves every pipeline of the table by name."""
    folder = session_folder / "refusals"
    folder.mkdir()
    named = [f"--pipeline={served(name)}={name}" for name in PROMISES]
    with importing_from(HERE):
        where = [f"--dataset=fields={dataset}", f"--dataset=again={dataset}"]
        where.append("--dataset=live=refused_numbers:Tissue")
        where += [f"--python-path={HERE}", "--workers=1"]
        with serving(folder, *where, *named) as running:
            yield running
    shutil.rmtree(folder)


def served(name: str) -> str:
    """The name under which a pipeline is served."""
    return name.replace(":", "_")


def refused_by(daemon: Daemon, pipeline: object, **more: object) -> str:
    """Return the error of a Loader."""
    stream = {"dataset": "fields", "pipeline": pipeline, "batch_size": 2, "device": "numpy"}
    with pytest.raises(BuildError) as caught, Loader(daemon.address, **stream | more) as loader:
        next(iter(loader))
    return caught.value.message


@pytest.mark.parametrize("name", PROMISES)
def test_it_is_refused_on_every_way(name, daemon, dataset):
    promise = PROMISES[name]
    told = [refused_by(daemon, promise.made), refused_by(daemon, served(name))]
    for command in (("explain", name, dataset), ("warm", "--pipeline", name, "--dataset", dataset)):
        code, _, error = call(*command, "--python-path", HERE, COLUMNS="9999")
        assert code == 1
        told.append(error)
    for error in told:
        assert f"{name.partition(':')[0]}.py:" in error
        for part in promise.parts:
            assert part in error, error


@pipeline
def plain(sample):
    return {"image": sample.image}


@pipeline
def flipped(sample):
    return {"image": ops.horizontal_flip(sample.image)}


@pipeline
def bucketed(sample):
    return {"image": ops.fit_bucket(sample.image), "mask": sample.mask}


@pipeline
def framed(sample):
    sample = sample_frames(sample, frames=2, by="grade")
    return {"image": ops.horizontal_flip(sample.image), "mask": sample.mask}


@pipeline
def frames(sample):
    return {"image": sample_frames(sample, frames=2, by="grade").image}


@pipeline
def missed(sample):
    return {"image": ops.horizontal_flip(sample.image), "mask": sample.mask}


@pytest.mark.parametrize(
    ("made", "op", "more"),
    [
        (bucketed, "fit_bucket", {"buckets": Buckets(max_area=576, divisor=8)}),
        (framed, "horizontal_flip", {"batch_size": 1}),
        (missed, "horizontal_flip", {"dataset": None, "mix": {"fields": 1, "again": 1}}),
    ],
)
def test_buckets_clips_and_mixtures_check_the_same(made, op, more, daemon):
    assert f"{op} moves output 'image', but not output 'mask'" in refused_by(daemon, made, **more)


def test_the_first_sample_of_a_live_source_decides(daemon):
    """What it has from 0 to 1 is served."""
    colored = {
        name: pipeline(lambda s, name=name: {"image": ops.brightness(s[name], p=1.0)})
        for name in ("ct", "unit")
    }
    error = refused_by(daemon, colored["ct"], dataset="live")
    assert "brightness expects floats from 0 to 1" in error
    assert "from -1000 to 1200" in error
    code, _, error = call(
        "explain", "refused_numbers:brighter_tissue", "refused_numbers:Tissue", "--python-path",
        HERE, COLUMNS="9999",
    )  # fmt: skip
    assert code == 1
    assert "from -1000 to 1200" in error
    stream = {"dataset": "live", "batch_size": 2, "device": "numpy"}
    with Loader(daemon.address, pipeline=colored["unit"], **stream) as loader:
        assert next(iter(loader))["image"].shape == (2, 32, 32, 1)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"subset": "nowhere"}, ("'nowhere'", "split")),
        ({"subset": [1, 1], "batch_size": 1}, ("subset", "1", "twice")),
        ({"weights": {"cat": 1}}, ("weights", "dog")),
        ({"weights": [1.0, 2.0**-70]}, ("weights", "too small")),
    ],
)
def test_an_argument_is_refused_by_a_loader(given, parts, daemon):
    stream = {"dataset": "fields", "pipeline": plain, "batch_size": 2, "device": "numpy"}
    with pytest.raises(StokerError) as caught:
        Loader(daemon.address, **stream | given).close()
    assert all(part in caught.value.message for part in parts), caught.value.message


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"exclude": [1]}, ("exclude",)),
        ({"freeze": {"horizontal_flip": 7}}, ("freeze",)),
        ({"seed": 3}, ("seed",)),
        ({"pipeline": plain}, ("pipeline",)),
    ],
)
def test_a_cursor_of_another_stream_is_refused_by_a_loader(given, parts, daemon):
    stream = {"dataset": "fields", "pipeline": flipped, "batch_size": 1, "device": "numpy"}
    with Loader(daemon.address, **stream) as first:
        next(iter(first))
        cursor = first.state_dict()
    with Loader(daemon.address, **stream | given) as other:
        with pytest.raises(ResumeError) as caught:
            other.load_state_dict(cursor)
        assert all(part in caught.value.message for part in parts), caught.value.message


def test_writing_impossible_boxes(tmp_path):
    for box in ([2, 3, 10, np.nan], [10, 3, 2, 12], [2, 3, 40, 12]):
        row = {"image": np.zeros((32, 32, 3), np.uint8), "boxes": {"xyxy": [box]}}
        with pytest.raises(DatasetError, match=r"row 0.*boxes"):
            write(tmp_path / "d", [schema.image(encoding="raw"), schema.boxes()], [row])


def test_bench_refuses_clips(dataset):
    code, _, error = call(
        "bench", "test_refusals:frames", dataset, "--python-path", HERE, COLUMNS="9999"
    )
    assert code == 1
    assert "clip" in error


@pytest.mark.parametrize("name", PROMISES)
def test_the_page_promises_it(name, root):
    promise = PROMISES[name]
    assert promise.sentence in refusals.text_of(root / promise.page)


@pytest.mark.parametrize("page", PAGES)
def test_every_promise_of_a_page_is_in_a_table(page, root):
    table = PROOFS.get(page, {})
    proved = [*table, *(one.sentence for one in PROMISES.values() if one.page == page)]
    found = refusals.sentences(root / page)
    assert [text for text in found if not any(part in text for part in proved)] == []
    assert [part for part in table if not any(part in text for text in found)] == []


def test_every_proof_is_there(root):
    named = {proof for table in PROOFS.values() for proof in table.values()}
    assert [proof for proof in sorted(named) if not refusals.is_there(proof, root)] == []
    assert set(PROOFS) <= set(PAGES)
    assert not refusals.is_there("tests/docs/test_refusals.py::test_that_nobody_wrote", root)
    assert not refusals.is_there("tests/docs/test_no_such.py::test_x", root)
    assert not refusals.is_there("refused_ops:no_such", root)


def test_what_sounds_like_a_refusal(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "A cursor is refused. It is read. | x | refused by name |\n\nIt raises `UsageError`.\n"
        "That is an error.\n\n```python\n# is refused\n```\n"
    )
    found = ["A cursor is refused.", "It raises `UsageError`.", "That is an error."]
    assert [text for text in refusals.sentences(page) if text in found] == found
