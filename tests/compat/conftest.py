"""Small datasets written by `DatasetWriter`, and the modules of a script."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from user_folders import importing_from

from stoker.compat.ffcv.fields import FloatField, IntField, RGBImageField
from stoker.compat.ffcv.pipeline.compiler import Compiler
from stoker.compat.ffcv.writer import DatasetWriter

HERE = Path(__file__).parent


@pytest.fixture(scope="session", autouse=True)
def user_folder() -> Iterator[Path]:
    """The script's folder, on the way of this process."""
    with importing_from(HERE) as folder:
        yield folder


@pytest.fixture(scope="session")
def guide(user_folder: Path):
    """The module of the guide's script."""
    return importlib.import_module("guide_script")


@pytest.fixture(scope="session")
def pictures(user_folder: Path):
    """The 50 small pictures."""
    return importlib.import_module("guide_data").Pictures()


@pytest.fixture(scope="session")
def packed(pictures, tmp_path_factory) -> Path:
    """The pictures as a dataset: raw images and labels."""
    path = tmp_path_factory.mktemp("ffcv") / "cifar.beton"
    DatasetWriter(path, {"image": RGBImageField(), "label": IntField()}).from_indexed_dataset(
        pictures
    )
    return path


@pytest.fixture(scope="session")
def write(tmp_path_factory) -> Callable[..., Path]:
    """Write samples: write({"a": IntField()}, [(1,), (2,)]) -> path."""

    def make(fields, samples) -> Path:
        path = tmp_path_factory.mktemp("ffcv") / "data.beton"
        DatasetWriter(path, fields).from_indexed_dataset(samples)
        return path

    return make


@pytest.fixture(scope="session")
def two_views(pictures, write) -> Path:
    """Each picture under two names, and a number: for what two pipelines share."""
    samples = [(pictures[i][0], pictures[i][0], i / 4) for i in range(12)]
    fields = {"left": RGBImageField(), "right": RGBImageField(), "weight": FloatField()}
    return write(fields, samples)


@pytest.fixture
def interpreted() -> Iterator[None]:
    """Operations as Python; that machine code does the same is shown in test_ffcv_steps.py."""
    Compiler.set_enabled(False)
    yield
    Compiler.set_enabled(True)
