"""The benchmark's own arithmetic: what is dropped, what is divided by what, what is counted."""

import argparse
import importlib.util
import io
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import forked_parts
import numpy as np
import pytest
import skimage.data
from matplotlib.colors import to_hex
from PIL import Image

from stoker.dataset import schema, write


@pytest.fixture(autouse=True)
def beside(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmarks import each other, as scripts do."""
    monkeypatch.syspath_prepend(str(root / "benchmarks"))


def module(root: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        f"benchmark_{name}", root / f"benchmarks/{name}.py"
    )
    assert spec
    assert spec.loader
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


def epoch(rate: float, other: float = 0.0) -> dict[str, float]:
    return {
        "images": 1000.0,
        "seconds": 1000 / rate,
        "images_per_s": rate,
        "first_batch_s": 0.1,
        "cpu_s": 2000 / rate,
        "other_cpu_s": other,
    }


def found(epochs: dict[str, list[dict[str, float]]]) -> dict:
    """A result of throughput.py."""
    return {
        "workload": "w1",
        "what": "a test",
        "batch_size": 256,
        "workers": 2,
        "rounds": 3,
        "machine": "a machine",
        "versions": {"nvidia-dali-cuda120": "2.4.0"},
        "contenders": {"a": "Stoker", "b": "DataLoader", "d": "plain loops", "dali": "DALI"},
        "epochs": epochs,
    }


def test_ratios_are_those_of_the_medians(root: Path) -> None:
    report = module(root, "report")
    results = {
        "a": [epoch(1000), epoch(1200), epoch(1100)],
        "b": [epoch(550), epoch(500), epoch(600)],
        "dali": [epoch(880)],
    }
    lines = report.table(found(results)).splitlines()
    assert lines[0] == "**w1**: a test, batch 256"
    assert lines[4] == "| a | Stoker | 1,100 (1,000..1,200) | 3 | 0 | 550 | 1.00 | 1.00 |"
    assert lines[5] == "| b | DataLoader | 550 (500..600) | 3 | 0 | 275 | 2.00 | 2.00 |"
    assert lines[6] == "| dali | DALI | 880 (880..880) | 1 | 0 | 440 | 1.25 | 1.25 |"


def test_noisy_epochs_are_dropped_and_counted(root: Path) -> None:
    report = module(root, "report")
    noisy = epoch(100, other=report.NOISE * 10 + 0.01)
    still_quiet = epoch(100, other=report.NOISE * 10 - 0.01)
    assert report.quiet([noisy, still_quiet]) == [still_quiet]
    assert "| 100 (100..100) | 1 | 1 |" in report.table(found({"b": [noisy, still_quiet]}))
    assert "| 1 | all noisy, all kept |" in report.table(found({"b": [noisy]}))


def test_the_report_goes_between_two_marks_of_a_page(root: Path) -> None:
    report = module(root, "report")
    text = report.page([found({"a": [epoch(10)]})])
    assert text.startswith("a machine; peers: nvidia-dali-cuda120 2.4.0. 3 rounds, 2 workers.")
    before = f"# Title\n{report.BEGIN}\nold\n{report.END}\nmore\n"
    assert report.put(text, before) == f"# Title\n{report.BEGIN}\n\n{text}\n\n{report.END}\nmore\n"
    assert report.put(text, report.put("other", before)) == report.put(text, before)
    with pytest.raises(SystemExit, match="the page has no lines"):
        report.put(text, "# Title\n")


def test_bars_are_as_long_as_rates(root: Path) -> None:
    report, chart = module(root, "report"), module(root, "chart")
    rows = {
        "Stoker": report.row_of([epoch(100), epoch(300), epoch(400)]),
        "A & B": report.row_of([epoch(100)]),
    }
    figure = chart.chart([("w1", rows), ("w2", rows)])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["w1", "w2"]
    for axes in figure.axes:
        bars = {
            label.get_text(): (bar.get_width(), to_hex(bar.get_facecolor()))
            for label, bar in zip(axes.get_yticklabels(), axes.patches, strict=True)
        }
        assert bars == {"A & B": (100, chart.THEIRS), "Stoker": (300, chart.OURS)}
        assert [text.get_text() for text in axes.texts] == ["100/s", "300/s"]
        (lines,) = axes.collections
        ends = [[place[0] for place in line] for line in lines.get_segments()]
        assert ends == [[100, 100], [100, 400]]


def test_the_chart_has_equal_bytes_each_time(root: Path, tmp_path: Path) -> None:
    report, chart = module(root, "report"), module(root, "chart")
    panels = [("w1", {"A & B": report.row_of([epoch(100)])})]
    for name in ("first.svg", "second.svg"):
        chart.save(chart.chart(panels), tmp_path / name)
    first = (tmp_path / "first.svg").read_bytes()
    assert first == (tmp_path / "second.svg").read_bytes()
    texts = [part.text for part in ElementTree.fromstring(first).iter() if part.text]
    assert {"w1", "A & B", "100/s"} <= set(texts)


def batch_of_photographs() -> np.ndarray:
    """(64, 96, 96, 3) uint8: windows of a photograph that is darker below and rather red."""
    photo, rng = skimage.data.rocket(), np.random.default_rng(0)
    places = rng.integers(0, (photo.shape[0] - 96, photo.shape[1] - 96), (64, 2))
    return np.stack([photo[top : top + 96, left : left + 96] for top, left in places])


def test_the_same_work_in_another_layout_is_the_same(root: Path) -> None:
    epochs, check = module(root, "epochs"), module(root, "check")
    batch, labels = batch_of_photographs(), np.zeros(64)
    first = epochs.summary(lambda: iter([(batch, labels)]), 1)
    assert first["images"] == 64
    assert first["shape"] == [3, 96, 96]
    assert first["masks"] == []
    expected = batch.reshape(64, 3, 32, 96, 3).mean((0, 2, 3))
    assert np.allclose(np.array(first["means"]).T, expected)
    planes = np.ascontiguousarray(batch[:, :, ::-1].transpose(0, 3, 1, 2))
    halves = [(planes[:32], labels[:32]), (planes[32:], labels[32:])]
    other = epochs.summary(lambda: iter(halves), 1)
    assert check.compare(first, other) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda batch: batch[..., ::-1], r"means differ by \d+\.\d% of the range, more than 1\.5%"),
        (lambda batch: batch[:, ::-1], "means differ"),
        (lambda batch: batch // 2, "means differ"),
        (lambda batch: batch[:, :90], r"shape \[3, 90, 96\] instead of \[3, 96, 96\]"),
        (lambda batch: batch.astype(np.float32), "dtype float32 instead of uint8"),
        (lambda batch: batch[1:], "images 63 instead of 64"),
    ],
)
def test_other_work_is_noticed(root: Path, change, fault: str) -> None:
    epochs, check = module(root, "epochs"), module(root, "check")
    batch = batch_of_photographs()
    first, other = (
        epochs.summary(lambda part=part: iter([(part, np.zeros(len(part)))]), 1)
        for part in (batch, change(batch))
    )
    assert any(re.match(fault, found) for found in check.compare(first, other))


def test_other_masks_are_noticed(root: Path) -> None:
    epochs, check = module(root, "epochs"), module(root, "check")
    batch = batch_of_photographs()
    first, other = (
        epochs.summary(lambda most=most: iter([(batch, batch[..., 0] % most)]), 1)
        for most in (4, 5)
    )
    assert check.compare(first, other) == ["masks [0, 1, 2, 3, 4] instead of [0, 1, 2, 3]"]


def test_peers_take_part_where_their_interpreter_is_given(root: Path) -> None:
    contenders, throughput = module(root, "contenders"), module(root, "throughput")
    assert contenders.chosen("w2", contenders.OURS, {}) == ["a", "b", "d", "g"]
    assert contenders.chosen("w1", "ae", {"ffcv": "x"}) == ["a", "e", "ffcv", "ffcv-half"]
    assert contenders.chosen("w3", "a", {"ffcv": "x", "dali": "y"}) == ["a", "dali"]
    assert throughput.peer(f"dali={sys.executable}") == ("dali", sys.executable)
    for wrong in ("dali", "dali=/no/such/file", f"unknown={sys.executable}"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected NAME=PYTHON"):
            throughput.peer(wrong)


def test_every_contender_has_a_script(root: Path) -> None:
    contenders = module(root, "contenders")
    for contender in contenders.CONTENDERS.values():
        assert (root / "benchmarks" / contender.script).is_file()


def test_data_laid_out_otherwise_are_linked(root: Path, tmp_path: Path) -> None:
    foreign, files = module(root, "foreign_data"), module(root, "files")
    for name in ("imagenet_like", "cifar_like", "seg_like/img", "seg_like/mask"):
        (tmp_path / name).mkdir(parents=True)
    for number in range(4):
        (tmp_path / f"imagenet_like/{number:05d}.jpg").write_bytes(b"%d" % number)
    np.save(tmp_path / "imagenet_like/labels.npy", np.array([7, 2, 7, 11]))
    (tmp_path / "seg_like/img/0000.jpg").write_bytes(b"image")
    (tmp_path / "seg_like/mask/0000.png").write_bytes(b"mask")
    np.save(tmp_path / "cifar_like/images.npy", np.zeros((2, 32, 32, 3), np.uint8))
    np.save(tmp_path / "cifar_like/labels.npy", np.array([1, 0]))
    assert foreign.is_foreign(tmp_path)
    for what in ("images", "pairs", "tiny"):
        foreign.arrange(tmp_path, what)
    paths, labels = files.photographs(tmp_path / "images")
    assert [
        (Path(path).read_bytes(), label) for path, label in zip(paths, labels, strict=True)
    ] == [
        (b"1", 0),
        (b"0", 1),
        (b"2", 1),
        (b"3", 2),
    ]
    ((image, mask),) = files.pairs(tmp_path / "pairs")
    assert (Path(image).read_bytes(), Path(mask).read_bytes()) == (b"image", b"mask")
    images, labels = files.arrays(tmp_path / "tiny")
    assert images.shape == (2, 32, 32, 3)
    assert labels.tolist() == [1, 0]


def test_mixed_data_are_what_they_say(root: Path, tmp_path: Path) -> None:
    """A photograph in the place of a wallpaper."""
    mixed = module(root, "make_mixed_data")
    for name in ("img", "mask"):
        (tmp_path / name).mkdir()
    paths = [tmp_path / "Dune.jpg"]
    Image.fromarray(skimage.data.astronaut()).save(paths[0])
    assert sum(share for _, share in mixed.SIZES) == pytest.approx(1)
    kinds = set()
    for number in range(12):
        mixed.write_image(tmp_path, paths, number)
        with Image.open(tmp_path / f"{number:05d}.jpg") as image:
            kinds.add((image.size, image.layer[0][1:3] if image.mode == "RGB" else "gray"))
    sizes = {size for size, _ in kinds}
    assert len(sizes) >= 4
    assert (500, 375) in sizes
    assert {layer for _, layer in kinds} >= {(1, 1), (2, 2)}
    mixed.write_pair(tmp_path, paths, 0)
    with (
        Image.open(tmp_path / "img/0000.jpg") as image,
        Image.open(tmp_path / "mask/0000.png") as m,
    ):
        assert image.size == m.size
        assert 5 < len(np.unique(np.asarray(m))) <= 19
    block = mixed.tiny_block(paths, 3, 0)
    assert block.shape == (3, 32, 32, 3)
    assert np.array_equal(block, mixed.tiny_block(paths, 3, 0))


def test_an_epoch_is_measured_up_to_its_last_batch(root: Path) -> None:
    meter = module(root, "meter")
    found = meter.measure(lambda: iter([np.ones((4, 2, 2, 3), np.uint8)] * 3))
    assert found.images == 12
    assert 0 < found.first_batch_s <= found.seconds
    assert math.isclose(found.images_per_s, 12 / found.seconds)


def test_an_accelerator_is_busy_for_its_steps(root: Path) -> None:
    """The first steps do not count, and a step lasts as long as it should."""
    accelerator = module(root, "accelerator")
    batches = iter([np.ones((4, 2, 2, 3), np.uint8)] * (accelerator.SKIPPED + 3))
    found = accelerator.feed(batches, 0.002)
    assert found.images == 12
    assert math.isclose(found.busy_s, 0.006)
    assert found.seconds >= found.busy_s


def test_a_loader_that_is_not_there_is_not_measured(root: Path) -> None:
    busy = module(root, "busy_accelerator")
    assert busy.row("dali", []) == "| DALI | not measured: it is not installed | | | |"
    run = {"images": 4000, "seconds": 4.48, "busy_s": 2.24, "cpu_s": 8.0, "other_cpu_s": 0.0}
    assert busy.row("dali", [run]) == "| DALI | 50% (50%..50%) | 500 | 3.2 | 0.00 |"


def test_the_processor_time_of_children_is_counted(root: Path) -> None:
    meter = module(root, "meter")
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    before = meter.tree_s(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout
        child.stdout.readline()
        living = meter.tree_s(os.getpid()) - before
        child.communicate(b"\n")
    reaped = meter.tree_s(os.getpid()) - before
    assert living >= 0.25
    assert reaped >= living - 0.02


@pytest.mark.slow
def test_rows_are_computed_with_a_cold_cache(root: Path, tmp_path: Path) -> None:
    file = io.BytesIO()
    Image.fromarray(skimage.data.coffee()).save(file, "JPEG")
    rows = [{"image": file.getvalue(), "label": number} for number in range(130)]
    write(tmp_path / "packed", [schema.image(grid=True), schema.label()], rows)
    cold = module(root, "cold")
    for kind in cold.KINDS:
        found = cold.run(kind, tmp_path / "packed", cold.BATCH)
        assert found["rows_per_s"] > 0
        assert found["waits"] >= 0


@pytest.fixture(scope="module")
def made(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the script made 24 images."""
    folder = tmp_path_factory.mktemp("data")
    command = [sys.executable, str(root / "benchmarks/make_data.py"), str(folder), "--count", "24"]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.mark.slow
def test_the_data_are_the_same_bytes_each_time(root: Path, made: Path, tmp_path: Path) -> None:
    """However many there are, and in any process."""
    assert module(root, "make_data").make(tmp_path, "images", 16)["images"] == 16
    again = {path.name: path for path in (tmp_path / "images").rglob("*.jpg")}
    first = {path.name: path for path in (made / "images").rglob("*.jpg")}
    assert sorted(again) == sorted(first)[:16]
    assert len(first) == 24
    assert all(
        path.relative_to(tmp_path) == first[name].relative_to(made)
        and path.read_bytes() == first[name].read_bytes()
        for name, path in again.items()
    )
    assert 60_000 < np.mean([path.stat().st_size for path in again.values()]) < 140_000


@pytest.mark.slow
def test_contenders_are_compared_by_what_they_yield(root: Path, made: Path) -> None:
    """OpenCV and Pillow shrink differently, and yet to the same means."""
    words = ["--data", made, "--check", "--only", "bc", "--workload", "w4", "--batch-size", "8"]
    words += ["--epochs", "1", "--workers", "1"]
    printed = forked_parts.output_of(
        root / "benchmarks/throughput.py", *words,
        imports=("stoker.client", "stoker.pipeline", "torch.utils.data"),
    )  # fmt: skip
    assert [line.partition(" [")[0] for line in printed.splitlines()] == [
        "w4 b: as b",
        "w4 c: as b",
    ]


def test_what_was_measured_is_what_the_page_says(root: Path) -> None:
    """The tables of docs/performance.md are those of the published results."""
    report = module(root, "report")
    results = report.read(root / "benchmarks/results/published")
    assert results
    text = (root / "docs/performance.md").read_text()
    assert report.put(report.page(results), text) == text


def test_help_of_the_build_makes_nothing(root: Path, tmp_path: Path) -> None:
    """It takes a folder to make, which once was called --help."""
    script = root / "benchmarks/ops_build.py"
    asked = subprocess.run(
        [sys.executable, str(script), "--help"],
        cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "CACHE" in asked.stdout
    assert not list(tmp_path.iterdir())
