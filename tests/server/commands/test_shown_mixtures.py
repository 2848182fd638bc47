"""Mixtures on the command line: what is shown and refused. tests/law/test_mix.py has the bytes."""

from pathlib import Path

import numpy as np
import pytest
import skimage.data
from commands import call
from PIL import Image

from stoker.dataset import schema, write

HERE = Path(__file__).parent
MIX = ["--mix=photos=0.7", "--mix=other=0.3"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five photographs with masks, in the classes of `photos`."""
    dest = tmp_path_factory.mktemp("other") / "other"
    coffee = skimage.data.coffee()
    rows = []
    for number in range(5):
        pixels = np.ascontiguousarray(coffee[10 : 90 + 9 * number, 20 : 120 - 8 * number])
        mask = (pixels.astype(int).sum(2) // 192).astype(np.uint8)
        rows.append({"image": pixels, "mask": mask, "label": number % 2})
    fields = [
        schema.image(encoding="raw"), schema.mask(), schema.label(classes=("day", "night"))
    ]  # fmt: skip
    write(dest, fields, rows)
    return dest


@pytest.fixture
def paths(photos: Path, other: Path) -> list[str]:
    return [f"--dataset=photos={photos}", f"--dataset=other={other}", f"--python-path={HERE}"]


def test_a_preview_of_a_mixture_shows_samples_of_all_datasets(paths, tmp_path):
    sheet = tmp_path / "sheet.png"
    flags = [*MIX, *paths, f"--out={sheet}", "--columns=2"]
    code, out, error = call("preview", "command_pipelines:train", *flags)
    assert (code, error) == (0, "")
    assert "8 samples, 2 epochs from 0" in out
    with Image.open(sheet) as page:
        assert page.width > 500
    code, out, _ = call("preview", "command_pipelines:mixed", *flags, "--ids=0,10")
    assert "2 samples, 2 epochs from 0" in out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "expected the folder of a dataset after the pipeline, or --mix"),
        (["d", *MIX], "d: --mix names the datasets; leave this one out"),
        ([*MIX, "--dataset=photos=d"], "--mix other=...: give --dataset other=PATH too"),
        (
            ["d", "--dataset=photos=d"],
            "--dataset photos=...: expected names of --mix, which is not",
        ),
        (
            [*MIX, "--pipeline=cats=m:a"],
            "--pipeline cats=...: expected names of --mix, photos, other",
        ),
        (["--mix=photos"], "--mix 'photos': expected NAME=RATIO"),
        (["--mix=a=x", "--dataset=a=d"], "mix['a']='x': expected a positive number"),
        (["--mix=a=0", "--dataset=a=d"], "mix['a']=0: expected a positive number"),
        (["d", "--subset=a", "--subset=b"], "--subset b: give it once"),
        (
            [*MIX, "--subset=photos=a", "--subset=b"],
            "--subset b: expected NAME=VALUE, with names of --mix",
        ),
        (
            [*MIX, "--dataset=photos=d", "--dataset=other=d", "--weights=./w.npy"],
            "weights: the samples of a mixture are of several datasets",
        ),
    ],
)
def test_a_mixture_that_cannot_be_is_refused(flags, said):
    code, _, error = call("replay", "command_pipelines:train", *flags, "--id=0", "--epoch=0")
    assert code == 2
    assert said in error


def test_a_sample_that_a_mixture_does_not_have(paths):
    code, _, error = call("replay", "command_pipelines:train", *MIX, *paths, "--id=11", "--epoch=0")
    assert (code, error) == (2, "stoker: id 11: the mixture has 11 samples, ids 0 to 10\n")
