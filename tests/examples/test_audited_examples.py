"""`stoker audit` finds nothing in the loaders of the examples; one daemon serves all of them."""

import importlib.util
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from audit_runs import fork_runs
from commands import call
from daemons import serving

from stoker.dataset import schema, write

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
AUDITED = {
    "frameworks/distributed": "torch",
    "frameworks/plain_pytorch": "torch",
    "frameworks/with_accelerate": "accelerate",
    "frameworks/with_jax": "jax",
    "frameworks/with_lightning": "pytorch_lightning",
    "frameworks/with_timm": "timm",
    "frameworks/with_torchdata": "torchdata",
    "frameworks/with_transformers": "transformers",
    "independent_client/train": "msgpack",
    "multi_crop/multi_crop": "numpy",
    "segmentation/train": "torch",
}
"""Example -> the package that it needs."""
WITHOUT_LOADER = {
    "frameworks/pictures", "independent_client/stream", "segmentation/demo",
    "segmentation/make_data", "segmentation/network", "segmentation/preview",
    "segmentation/segmentation",
}  # fmt: skip
BY_RAY = {"ray_train/train"}
"""Its trainers are processes of Ray, which tests/ray runs."""
PREPARED = [one for one in ("accelerate", "pytorch_lightning") if importlib.util.find_spec(one)]


@pytest.fixture(scope="module")
def address(session_folder: Path) -> Iterator[str]:
    """A daemon with 128 images, and what the example of segmentation serves."""
    folder = session_folder / "audited_examples"
    folder.mkdir()
    images = np.random.default_rng(0).integers(0, 255, (128, 40, 40, 3)).astype(np.uint8)
    rows = [{"image": image, "mask": image[..., 0] // 86, "label": n % 2}
            for n, image in enumerate(images)]  # fmt: skip
    fields = [schema.image(encoding="raw"), schema.mask(encoding="raw"), schema.label()]
    write(folder / "packed", fields, rows)
    flags = f"--dataset=pictures={folder}/packed", "--pipeline=train=segmentation:train"
    paths = f"--python-path={EXAMPLES / 'segmentation'}"
    with serving(folder, *flags, paths, "--workers=1") as daemon:
        yield daemon.address
    shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def forked_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the processes of runs from one that has imported what the examples import."""
    fork_runs(monkeypatch, PREPARED)


def test_every_example_with_a_loader_is_audited() -> None:
    found = {f"{path.parent.name}/{path.stem}" for path in EXAMPLES.glob("*/*.py")}
    assert found == {*AUDITED} | WITHOUT_LOADER | BY_RAY


@pytest.mark.parametrize("example", AUDITED)
def test_an_audit_of_an_example_finds_nothing(
    example: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec(AUDITED[example]) is None:
        pytest.skip(f"{AUDITED[example]} is not installed")
    monkeypatch.setenv("AUDITED_ADDRESS", address)
    monkeypatch.chdir(tmp_path)
    factory = f"audited_examples:{example.replace('/', '_')}"
    questions = [f"--question={name}" for name in ("repeat", "seeds", "epochs", "ranks", "resume")]
    code, printed, errors = call(
        "audit", factory, "--python-path", HERE, "--json", "--batches=2", *questions
    )
    assert code == 0, printed + errors
    found = {one["question"]: one["answer"] for one in json.loads(printed)["questions"]}
    has_state = example != "independent_client/train"
    assert found == {
        "repeat": "same", "seeds": "differs", "epochs": "differs", "ranks": "differs",
        "resume": "same" if has_state else "not asked",
    }  # fmt: skip
