"""The errors of the commands that show pipelines and streams, once each."""

import sys
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from stoker.dataset import schema, write
from stoker.protocol.errors import BuildError, DatasetError, UnknownNameError, UsageError
from stoker.server.commands.bench_command import bench
from stoker.server.commands.buckets_command import buckets
from stoker.server.commands.explain_command import explain
from stoker.server.commands.preview_command import preview
from stoker.server.commands.replay_command import replay
from stoker.server.commands.warm_command import warm

AREA = ("--max-area", 64 * 64, "--divisor", 16)


def over(command: Callable, *flags: object, of: str | None = "train") -> Callable:
    """A call of a command over the photographs, with one of the pipelines."""
    named = () if of is None else (f"command_pipelines:{of}",)
    return lambda on: on.run(command, *named, on.photos, *flags)


def planned(*flags: object, batch: int = 4) -> Callable:
    return over(buckets, "--batch-size", batch, *flags, of=None)


def replayed(*flags: object, of: str = "train") -> Callable:
    return over(replay, "--epoch", 0, *flags, of=of)


def previewed(*flags: object, of: str = "train", name: str = "s.png") -> Callable:
    return lambda on: over(preview, "--out", on.folder / name, *flags, of=of)(on)


def nothing_to(name: str) -> Callable:
    """A call of preview without a pipeline and a dataset: the file is looked at before."""
    return lambda on: on.run(preview, "no_such_module:train", "/nowhere", "--out", on.folder / name)


def plan_of_4097_sizes(on: SimpleNamespace) -> None:
    rows = ({"image": np.zeros((1 + n % 64, 1 + n // 64, 3), np.uint8)} for n in range(4097))
    write(on.elsewhere, [schema.image(encoding="raw")], rows)
    on.run(buckets, on.elsewhere, "--batch-size", 1, "--no-resize", "--divisor", 1)


def plot_without_matplotlib(on: SimpleNamespace) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("matplotlib", "matplotlib.figure"):
            patch.setitem(sys.modules, name, None)
        on.run(buckets, "/nowhere", *AREA, "--batch-size", 4, "--plot", "plan.png")


def sheet_of_20000_pixels(on: SimpleNamespace) -> None:
    """WebP has at most 16383 pixels a side; the sheet is wide, not high, to need less memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stoker.server.inspect.contact_sheet.GAP", 800)
        previewed("--ids", "1", "--columns", 20, name="s.webp")(on)


ERRORS = [
    (over(bench, '--buckets={"max_area": "x"}', of="fitted"), UsageError,
     "buckets: max_area: expected an integer from 1 to 67108864, got 'x'"),
    (over(bench, '--buckets={"max_area": 4096, "field": 3}', of="fitted"), UsageError,
     "buckets: field: expected the name of a field, got 3"),
    (over(bench, '--buckets={"maxarea": 4096}', of="fitted"), UsageError,
     "buckets: Buckets has no argument 'maxarea'; did you mean 'max_area'?"),
    (over(bench, '--buckets={"kind": "areas", "max_area": 4096}', of="fitted"), UsageError,
     "buckets: kind: expected 'sizes' or 'lengths', got 'areas'"),
    (over(bench, '--buckets={"sizes": [[64]]}', of="fitted"), UsageError,
     r"buckets: sizes: expected \(width, height\) from 1 to 65535"),
    (over(bench, '--buckets={"field": "x", "bounds": ["a"]}', of="fitted"), UsageError,
     "buckets: bounds: expected an integer from 1 to 1048576, got 'a'"),
    (over(bench, "--buckets={", of="fitted"), UsageError,
     "as JSON, such as {\"max_area\": 1048576}, got '{': Expecting property name"),
    (over(bench, "--buckets=" + "[" * 100_000, of="fitted"), UsageError, "as JSON, such as"),
    (over(bench, "--buckets=[]", of="fitted"), UsageError,
     "expected arguments of Buckets or LengthBuckets as JSON, such as"),
    (over(bench, '--buckets={"max_area": 9}', of="fitted"), UsageError,
     "max_area=9 is too small for any bucket"),
    (over(bench, '--buckets={"multiple": 8}', of="fitted"), UsageError,
     "field: expected the name of the field whose length counts"),
    (lambda on: over(bench, "--exclude", on.folder / "list")(on), UsageError,
     "exclude: the dataset has 6 samples, ids 0 to 5; the list names 24"),
    (over(bench, "--workers=0"), UsageError,
     "stoker bench: --workers 0: expected a number from 1"),
    (over(bench, of="none"), BuildError, "has no pipeline 'none'"),
    (planned(), UsageError, "give max_area"),
    (planned("--bound", 9, "--max-area", 99), UsageError,
     "--bound is for sequences: add --lengths FIELD, or leave it out"),
    (planned(*AREA, batch=50), UsageError, "a batch is larger than every bucket"),
    (planned("--max-area", 4096, "--cut-weight", 99), UsageError,
     "cut_weight: expected an integer from 2 to 16"),
    (planned(*AREA, "--field", "photo"), UnknownNameError, "no field 'photo'"),
    (planned("--lengths", "text", "--max-area", 99), UsageError,
     "--max-area is for images, and --lengths for sequences: leave out one of them"),
    (planned("--lengths", "words", "--size", "64x64"), UsageError,
     "--size is for images, and --lengths for sequences"),
    (planned("--max-area", 4032), UsageError,
     "max_area=4032 is too small for any bucket: the smallest side is"),
    (planned("--max-area", 4096, "--max-side", 48), UsageError,
     "no multiple of divisor=64 is between"),
    (planned("--no-resize", "--divisor", 16), UsageError,
     "multiple of divisor=16; .* id 0 has 90x80 pixels"),
    (lambda on: on.run(buckets, "/nowhere", *AREA, "--batch-size", 4, "--plot", "plan.txt"),
     UsageError, r"plan\.txt: expected a file name with .*\bpng\b"),
    (plot_without_matplotlib, UsageError, r"^a plot needs matplotlib; run: pip install 'stoker\["),
    (planned("--size", "64*64"), UsageError,
     r"--size 64\*64: expected WIDTHxHEIGHT, such as 1152x896"),
    (planned("--size", "64x60"), UsageError, "multiples of divisor=64, got"),
    (planned("--size", "64x64", "--max-area", 4096), UsageError,
     "max_area chooses sizes, and sizes= lists them"),
    (plan_of_4097_sizes, UsageError, "4097 different sizes, but at most 4096 are allowed"),
    (lambda on: write(on.elsewhere, [schema.image()], [{"image": np.zeros((0, 5, 3), "u1")}]),
     DatasetError, "row 0, field 'image': it has 0x5 pixels, so it is em"),
    (over(explain, of="fitted"), BuildError, "and there are no buckets"),
    *[
        (over(explain, "--bucket", wrong, of="fitted"), UsageError,
         "expected WIDTHxHEIGHT in pixels, such as")
        for wrong in ("80x", "0x9", "axb", "0", "8x8x8")
    ],
    (previewed("--ids", "1," * 99 + "1", "--columns", 64), UsageError,
     "at most 4096 pictures, got 100 x 64"),
    (previewed("--ids", "1,b"), UsageError, "--ids '1,b': expected numbers separated by commas"),
    (previewed("--ids", 9), UsageError, "id 9: the dataset has 6 samples"),
    (nothing_to("file/s.png"), UsageError,
     "--out .*file/s.png: there is no folder .*file; make it"),
    (nothing_to("folder.png"), UsageError,
     r"--out .*folder\.png: it is a folder; expected the name of a file"),
    (nothing_to("missing/s.png"), UsageError,
     "--out .*missing/s.png: there is no folder .*missing; make it, or choose another one"),
    (nothing_to("s"), UsageError, "--out .*/s: expected a file name with one of the endings"),
    (nothing_to("s.xyz"), UsageError,
     r"--out .*s\.xyz: expected a file name with one of the endings .bmp, .gif, .jpeg, .jpg"),
    (sheet_of_20000_pixels, UsageError, r"--out .*s\.webp: an image of .* cannot be written \("),
    (previewed("--output", "mask"), UsageError,
     "expected an output made of an image: image; got mask"),
    (previewed("--output", "x"), UsageError, "expected an output made of an image: image; got x"),
    (previewed(of="labels"), UsageError, "the pipeline has no output that is made of an image"),
    (replayed("--id", 0, "--freeze", "flip"), UsageError, "expected NAME=NUMBER or NAME=epoch"),
    (replayed("--id", 0, "--freeze", "flip=-1"), UsageError,
     r"freeze\['flip'\]=-1: expected an integer from 0 to \d+ or \"epoch\""),
    (replayed("--id", 0, "--freeze", "flip=1"), UnknownNameError, "there is no stream 'flip'"),
    (replayed("--id", 6), UsageError, "id 6: the dataset has 6 samples, ids 0 to 5"),
    (replayed("--id", 6, "--params-only"), UsageError, "id 6: the dataset has 6 samples"),
    (replayed("--id", 0, "--params-only", of="dark"), UsageError,
     r"a condition or parameter reads a number computed from pixels, .*pipelines.py:\d+"),
    (replayed("--id", 0, "--params-only", of="marked"), UsageError,
     "crop_non_empty_mask at .* reads the pixels of a mask"),
    (replayed("--id", 2, "--visit", 3, "--seed", 5, of="mixed"), UsageError,
     "sample 2, visit 3 of epoch 0 is not a row of the"),
    (replayed("--id", 0, of="absent"), BuildError, "has no pipeline 'absent'"),
    (lambda on: on.run(warm), UsageError,
     "give --pipeline and --dataset, or --all-ops, or all three"),
    (lambda on: on.run(warm, "--dataset", "x", "--all-ops"), UsageError,
     "--pipeline and --dataset belong together: give both"),
    (lambda on: on.run(warm, "--pipeline", "a:b"), UsageError,
     "--pipeline and --dataset belong together: give both"),
]  # fmt: skip


@pytest.fixture
def on(run, photos, tmp_path):
    """What a call needs: the runner, the photographs, and a folder that no call changes."""
    folder = tmp_path / "out"
    (folder / "folder.png").mkdir(parents=True)
    (folder / "file").touch()
    (folder / "list").write_text("24\n")
    before = sorted(folder.rglob("*"))
    yield SimpleNamespace(run=run, photos=photos, folder=folder, elsewhere=tmp_path / "dataset")
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("call", "error", "message"), ERRORS, ids=[message[:60] for *_, message in ERRORS]
)
def test_what_a_command_refuses(on, call, error, message):
    with pytest.raises(error, match=message) as caught:
        call(on)
    assert caught.type is error
