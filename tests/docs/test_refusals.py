"""Refusals that pages promise: by a Loader, for a pipeline that is served, and by commands.

One daemon serves them all. `refusals` says how to add a promise.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import refusals
import refused_code
from commands import call
from daemons import Daemon, serving
from page_blocks import pages
from refused_data import FIELDS, row_of_fields, write_fields
from user_folders import importing_from
from warm import Script

from stoker import client, ops
from stoker.client import Buckets, LengthBuckets, Loader
from stoker.dataset import open_dataset, schema, write
from stoker.ops import define
from stoker.pipeline import outputs, pipeline, sample_frames
from stoker.protocol.errors import (
    BuildError,
    DatasetError,
    ResumeError,
    SampleError,
    StokerError,
)
from stoker.server.rows.field_states import worker_plan

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]
HERE = Path(__file__).parent
PROMISES = refusals.promises()
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
    write_fields(folder)
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
        where += [f"--python-path={HERE}", "--op-module=refused_code", "--workers=1"]
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


@pytest.fixture(scope="module")
def explained(dataset: Path) -> dict[str, str]:
    """What `stoker explain` says of each pipeline."""
    told = {}
    for name in PROMISES:
        code, _, error = call("explain", name, dataset, "--python-path", HERE, COLUMNS="9999")
        told[name] = error if code == 1 else f"exit code {code}"
    return told


def said_by_command(*words: object) -> str:
    code, _, error = call(*words, "--python-path", HERE, COLUMNS="9999")
    assert code == 1, error
    return error


def in_process(name: str) -> str:
    items = ("boxes", "keypoints", "bytes")
    kinds = {field.name: field.meaning for field in FIELDS if field.meaning not in items}
    classes = {field.name: field.classes for field in FIELDS if field.classes}
    sample = {
        name: np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value
        for name, value in row_of_fields().items()
    }
    with pytest.raises(BuildError) as caught:
        PROMISES[name].made(sample, kinds=kinds, classes=classes)
    return caught.value.message


def bound_by_a_worker(name: str, dataset: Path) -> str:
    with open_dataset(dataset) as opened, pytest.raises(BuildError) as caught:
        worker_plan(PROMISES[name].made.graph(), opened)
    return caught.value.message


CALLERS = {
    "a Loader": lambda name, dataset, daemon: refused_by(daemon, PROMISES[name].made),
    "a name": lambda name, dataset, daemon: refused_by(daemon, served(name)),
    "a worker": lambda name, dataset, daemon: bound_by_a_worker(name, dataset),
    "warm": lambda name, dataset, _: said_by_command(
        "warm", "--pipeline", name, "--dataset", dataset
    ),
    "replay": lambda name, dataset, _: said_by_command(
        "replay", name, dataset, "--id=0", "--epoch=0"
    ),
    "preview": lambda name, dataset, _: said_by_command(
        "preview", name, dataset, "--out", dataset / "sheet.png"
    ),
    "in process": lambda name, dataset, _: in_process(name),
}
"""Ways to bind a pipeline, next to `stoker explain`: (pipeline, dataset, daemon) -> the error."""
OF_DATASETS = (
    "refused_numbers:ten_for_labels_from_one",
    "refused_ops:kind_without_a_rule",
    "refused_targets:flip_of_bytes",
)
"""Mistakes that a sample in process does not show: it has no statistics, and no field of bytes."""


@pytest.mark.parametrize("name", PROMISES)
def test_every_caller_refuses_it_in_the_same_words(name, daemon, dataset, explained):
    words = _without_bounds(explained[name].removeprefix("stoker: "))
    assert f"{name.partition(':')[0]}.py:" in words
    assert all(part in explained[name] for part in PROMISES[name].parts), words
    for caller, said in CALLERS.items():
        if caller == "in process" and name in OF_DATASETS:
            continue
        error = said(name, dataset, daemon).removeprefix("stoker: ").strip()
        assert _without_bounds(error) == words, caller


def _without_bounds(message: str) -> str:
    """Return a message without the greatest number of items, which a dataset knows."""
    return re.sub(r"\[<=\d+", "[", message).strip()


@pytest.mark.parametrize("name", PROMISES)
def test_no_other_mistake_is_told_in_its_words(name, explained):
    """Else a pipeline that is refused for another reason would prove the promise."""
    parts = PROMISES[name].parts
    others = {other for other in PROMISES if PROMISES[other].parts != parts}
    assert [other for other in others if all(part in explained[other] for part in parts)] == []


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
def fitted(sample):
    return {"text": outputs.pad(ops.fit_length(sample.text))}


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


@pipeline
def planes(sample):
    return {"strip": outputs.as_list(ops.layout(sample.strip))}


def test_planes_of_which_one_side_varies(daemon):
    """Such a row has 3 planes, as many rows as its strip, and 32 columns: two fixed sides."""
    error = refused_by(daemon, planes)
    assert "layout would give array uint8[3x<=9x32] for array uint8[<=9x32x3]: " in error
    assert "fix the size before it with resize" in error


def test_the_first_sample_of_a_live_source_decides(daemon):
    """Its values from 0 to 1 are served."""
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
        ({"subset": "nowhere"}, ("'nowhere'", "'train', 'val'")),
        ({"subset": [1, 1], "batch_size": 1}, ("subset", "1", "twice")),
        ({"subset": [1, 0], "shuffle": False, "batch_size": 1}, ("subset", "not ascending")),
        ({"weights": np.random.default_rng(0).random(300_000)}, ("weights", "2097152")),
        ({"weights": {"cat": 1}}, ("weights", "dog")),
        ({"weights": [1.0, 2.0**-70]}, ("weights", "too small")),
        ({"weights": "negative"}, ("weights", "'negative'", "-1.0")),
        ({"weights": "unknown"}, ("weights", "'unknown'", "nan")),
        ({"weights": "zero"}, ("weights", "all 2 weights are 0")),
        ({"weights": [1.0, 2.0, 3.0]}, ("weights", "(2, also with subset= or exclude=)", "got 3")),
        (
            {"pipeline": fitted, "buckets": LengthBuckets(field="text", bounds=(4,))},
            ("id 0 has length 6", "2 are longer than 4"),
        ),
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


CLIPS = [
    (lambda clip: {"boxes": clip.boxes}, {}, "boxes"),
    (lambda clip: {"points": clip.points}, {}, "keypoints"),
    (lambda clip: {"heat": outputs.pad(clip.heat)}, {}, "pad"),
    (lambda clip: {"image": ops.mixup(clip.image)}, {}, "mixup"),
]


@pytest.mark.parametrize(("made", "more", "part"), CLIPS)
def test_what_clips_cannot_do(made, more, part, daemon):
    clips = pipeline(lambda s: made(sample_frames(s, frames=2, by="grade")))
    error = refused_by(daemon, clips, **{"batch_size": 1, **more})
    assert "frames" in error
    assert part in error


SCRIPT = """
import sys
from stoker.client import Loader
from stoker.ops import define
from stoker.pipeline import pipeline

@define()
def copied(src, dst, params, record, scratch):
    dst[...] = src

@pipeline
def train(sample):
    return {"image": copied()(sample.image)}

Loader(sys.argv[1], dataset="fields", pipeline=train, batch_size=2, device="numpy")
"""


def test_an_op_of_the_script_itself(daemon, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    words = (tmp_path / "train.py", daemon.address)
    with Script(*words, imports=["numba"], stderr=subprocess.PIPE) as done:
        error = done.communicate(timeout=60)[1]
    assert done.returncode == 1
    assert f"{tmp_path}/train.py:13: op 'copied' is defined in __main__, which a worker" in error
    assert "move it into a module and import it from there" in error


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (
            "fails_on_samples",
            ("refused_code:fails_later raised ValueError: such an image", "refused_code.py:"),
        ),
        ("reaches_beyond", ("index 40 is out of bounds", "refused_code.py:")),
    ],
)
def test_what_only_a_sample_shows_ends_the_loop(name, parts, daemon):
    stream = {"dataset": "fields", "batch_size": 2, "device": "numpy", "seed": 1}
    made = getattr(refused_code, name)
    for policy, more in (("raise", ("sample ",)), ("replace", ("16 substitutes for sample",))):
        with (
            Loader(daemon.address, pipeline=made, on_error=policy, **stream) as loader,
            pytest.raises(SampleError) as caught,
        ):
            next(iter(loader))
        for part in (*parts, *more):
            assert part in caught.value.message, caught.value.message


@define()
def unlisted(src, dst, params, record, scratch):
    dst[...] = src


def test_an_op_of_a_module_that_the_operator_does_not_allow(daemon):
    error = refused_by(daemon, pipeline(lambda sample: {"image": unlisted()(sample.image)}))
    assert (
        f"the operator of the daemon allows it with `op_modules = ['{unlisted.__module__}']`"
        in error
    )


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


def test_every_promise_of_the_clients_docstrings_is_in_the_table():
    found, table = refusals.docstrings(client), PROOFS["stoker.client"]
    assert [text for text in found if not any(part in text for part in table)] == []
    assert [part for part in table if not any(part in text for text in found)] == []


def test_every_proof_is_there(root):
    named = {proof for table in PROOFS.values() for proof in table.values()}
    assert [proof for proof in sorted(named) if not refusals.is_there(proof, root)] == []
    assert set(PROOFS) <= {*PAGES, "stoker.client"}
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
