"""A small packed dataset of photographs with masks, and a way to run commands over it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from PIL import Image
from typer import Typer
from typer.testing import CliRunner

from stoker.dataset import schema, write
from stoker.dataset.packing.pack import Options, pack

HERE = Path(__file__).parent
SAMPLES = 6


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six crops of photographs as JPEG, of different sizes, with PNG masks, in two classes."""
    root = tmp_path_factory.mktemp("commands")
    sources = (skimage.data.astronaut(), skimage.data.chelsea(), skimage.data.coffee())
    for number in range(SAMPLES):
        crop = sources[number % 3][20 : 100 + 7 * number, 30 : 120 + 5 * number]
        kind = ("day", "night")[number % 2]
        for folder in ("images", "masks"):
            (root / folder / kind).mkdir(parents=True, exist_ok=True)
        Image.fromarray(crop).save(root / "images" / kind / f"{number}.jpg", quality=95)
        mask = (crop.astype(int).sum(2) // 192).astype(np.uint8)
        Image.fromarray(mask).save(root / "masks" / kind / f"{number}.png")
    dest = tmp_path_factory.mktemp("packed") / "photos"
    pack(root, dest, Options(workers=1))
    return dest


@pytest.fixture(scope="session")
def boxed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three photographs with boxes (one of them with none) and keypoints."""
    dest = tmp_path_factory.mktemp("boxed") / "d"
    photo = np.ascontiguousarray(skimage.data.chelsea()[40:120, 100:200])
    rows = [
        {
            "image": photo,
            "boxes": {
                "xyxy": [[8.0 + k, 9, 70, 60 + k] for k in range(count)],
                "label": np.arange(count),
            },
            "keypoints": {"xy": [[40.0, 33 + k] for k in range(count)]},
        }
        for count in (2, 0, 3)
    ]
    fields = [schema.image(encoding="raw"), schema.boxes(fields={"label": "int64"})]
    write(dest, [*fields, schema.keypoints()], rows)
    return dest


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """run(command, *arguments) -> what it printed; faults come through as exceptions."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(HERE)

    def invoke(command: Callable[..., None], *arguments: object) -> str:
        app = Typer()
        app.command()(command)
        result = CliRunner().invoke(app, [str(part) for part in arguments])
        if result.exception is not None:
            raise result.exception
        return result.stdout

    return invoke
