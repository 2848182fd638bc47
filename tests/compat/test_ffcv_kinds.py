"""Operations of every kind that public FFCV code has run when their import lines are changed.

Each goes through a loader: twice with other workers and other batches, which gives the same rows.
"""

import importlib
import lzma
import os
from pathlib import Path

import kinds_arrays as arrays
import kinds_python as python
import numpy as np
import public_ops as public
import pytest
import torch
from commands import call
from corrupt_labels import CorruptFixedLabels
from pipeline_ops import stored

from stoker.client import Loader as StokerLoader
from stoker.compat.ffcv import DatasetWriter, Loader, OrderOption
from stoker.compat.ffcv.fields import FloatField, IntField, RGBImageField
from stoker.compat.ffcv.fields.decoders import FloatDecoder, IntDecoder, SimpleRGBImageDecoder
from stoker.compat.ffcv.pipeline import Compiler
from stoker.compat.ffcv.reader import Reader
from stoker.compat.ffcv.transforms import RandomHorizontalFlip, ToTensor, ToTorchImage
from stoker.dataset import open_dataset
from stoker.dataset.format.manifest import NAME
from stoker.protocol.errors import DatasetError

pytestmark = pytest.mark.usefixtures("forked_private_daemons")

SAMPLES = 24
BETONS = Path(__file__).parents[1] / "dataset" / "sources" / "betons"
BY_BATCH = {
    "Neighbors", "Permuted", "Halves", "EvenMixup", "EvenLabels", "RandomLabels",
}  # fmt: skip
"""Operations whose rows depend on the batch."""
IMAGES = [
    arrays.PaddedShift, arrays.PaddedShiftOfArrays, arrays.Stretched, arrays.Equalized,
    arrays.Summed, arrays.SometimesWritten, arrays.Erased, arrays.Dimmed, arrays.Boxed,
    arrays.Jittered, arrays.TurnedByPython, arrays.FlippedSeeded, arrays.UpsideDownSeeded,
    arrays.Framed, arrays.Doubled, arrays.EvenMixup, arrays.Halves, arrays.Neighbors,
    arrays.Permuted, python.Blurred, lambda: python.Gains(0.02, 0.7, 0.4), python.Pictures,
    python.Smaller, python.Convolved, python.Table,
    lambda: python.Transformed(python.GlobalTransform()),
    lambda: python.Transformed(python.OwnTransform()),
    lambda: python.TransformedSeeded(python.GlobalTransform()),
    public.GrayViews, public.Quarters, lambda: public.Glare(0.8),
    lambda: public.SomeOf([public.inverted, public.upside_down, public.swapped]),
]  # fmt: skip
LABELS = [
    arrays.EvenLabels, python.RandomLabels, lambda: CorruptFixedLabels(0.3),
    lambda: public.RelabelClasses({number: 9 - number for number in range(10)}),
    lambda: public.FixedLabels(np.arange(SAMPLES)),
    lambda: public.HiddenTokens(7, 5, 6, 2),
]  # fmt: skip
TENSORS = [
    python.Half, python.Several, lambda: python.Moved(torch.device("cpu")), python.BackToArrays,
]  # fmt: skip
CASES = [
    *[(make, "image", SimpleRGBImageDecoder, False) for make in IMAGES],
    *[(make, "label", IntDecoder, False) for make in LABELS],
    *[(make, "image", SimpleRGBImageDecoder, True) for make in TENSORS],
    (python.OneHot, "label", IntDecoder, True),
    (arrays.Doubled, "weight", FloatDecoder, False),
    (python.OwnToTensor, "image", SimpleRGBImageDecoder, False),
]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Path:
    """Noise with a label and a weight."""
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (SAMPLES, 16, 16, 3)).astype(np.uint8)
    path = tmp_path_factory.mktemp("kinds") / "train.beton"
    fields = {"image": RGBImageField(), "label": IntField(), "weight": FloatField()}
    samples = [(image, n % 10, n / 4) for n, image in enumerate(images)]
    DatasetWriter(path, fields).from_indexed_dataset(samples)
    return path


def rows(dataset, steps, field="image", batch=8, workers=1, epochs=2):
    """(epochs, samples, ...): the rows of some epochs, by sample."""
    lines = {name: None for name in ("image", "label", "weight") if name != field}
    lines[field] = steps
    loader = Loader(dataset, batch, num_workers=workers, seed=3, pipelines=lines)
    return np.stack([np.concatenate([np.asarray(b[0]) for b in loader]) for _ in range(epochs)])


def test_there_are_enough_of_them():
    assert len(CASES) >= 45
    assert len({getattr(make, "__name__", str(n)) for n, (make, *_) in enumerate(CASES)}) >= 30


@pytest.mark.as_a_user
@pytest.mark.filterwarnings("ignore:First-class function type")
@pytest.mark.parametrize(("make", "field", "decoder", "on_tensors"), CASES)
def test_an_operation_runs_by_its_imports_alone(
    dataset, interpreted, make, field, decoder, on_tensors
):
    name = type(make()).__name__

    def steps():
        before = [decoder(), ToTensor()] if on_tensors else [decoder()]
        after = [] if on_tensors or name in {"OwnToTensor", "RandomLabels"} else [ToTensor()]
        return [*before, make(), *after]

    first = rows(dataset, steps(), field)
    batch = 8 if name in BY_BATCH else 6
    assert np.array_equal(first, rows(dataset, steps(), field, batch=batch, workers=2))


@pytest.mark.slow
@pytest.mark.parametrize("make", [arrays.Equalized, arrays.EvenMixup])
def test_machine_code_gives_the_same_rows(dataset, monkeypatch, make):
    found = []
    for machine in (True, False):
        monkeypatch.setattr(Compiler, "_enabled", machine)
        found.append(rows(dataset, [SimpleRGBImageDecoder(), make(), ToTensor()], epochs=1))
    assert np.array_equal(*found)


def test_scratch_memory_is_empty_and_rows_are_shifted(dataset, interpreted):
    plain = rows(dataset, [SimpleRGBImageDecoder(), ToTensor()], epochs=1)[0]
    got = rows(dataset, [SimpleRGBImageDecoder(), arrays.PaddedShift(), ToTensor()])
    for epoch in got:
        for image, shifted in zip(plain, epoch, strict=True):
            wide = np.pad(image, ((2, 2), (2, 2), (0, 0)))
            windows = [wide[y : y + 16, x : x + 16] for y in range(5) for x in range(5)]
            assert any(np.array_equal(window, shifted) for window in windows)
    assert (got[0] != got[1]).any()
    some = rows(dataset, [SimpleRGBImageDecoder(), arrays.SometimesWritten(), ToTensor()])
    is_empty = (some == 0).all(axis=(2, 3, 4))
    assert 0.2 < is_empty.mean() < 0.8
    assert np.array_equal(some[~is_empty], np.stack([plain, plain])[~is_empty])


def test_libraries_draw_for_the_row_and_newly_in_each_epoch(dataset, interpreted):
    python.random.seed(1)
    before = python.random.getstate()
    for make in (
        lambda: python.Transformed(python.GlobalTransform()),
        lambda: python.Transformed(python.OwnTransform()),
        lambda: python.TransformedSeeded(python.GlobalTransform()),
        python.Pictures,
        lambda: python.Gains(0.02, 0.7, 0.4),
    ):
        got = rows(dataset, [SimpleRGBImageDecoder(), make(), ToTensor()])
        changed = (got[0] != got[1]).any(axis=(1, 2, 3))
        assert changed.sum() >= SAMPLES - 3
    assert python.random.getstate() == before


def test_after_python_machine_code_goes_on(dataset, interpreted):
    steps = [SimpleRGBImageDecoder(), python.Blurred(), RandomHorizontalFlip(), ToTensor()]
    assert rows(dataset, [*steps, python.BackToArrays(), arrays.Doubled()]).shape[1] == SAMPLES


def test_even_batches_are_mixed_with_the_labels_that_belong_to_them(dataset, interpreted):
    lines = {
        "image": [SimpleRGBImageDecoder(), arrays.EvenMixup(), ToTensor(), ToTorchImage()],
        "label": [IntDecoder(), arrays.EvenLabels(), ToTensor()],
        "weight": [FloatDecoder(), ToTensor()],
    }
    plain = rows(dataset, [SimpleRGBImageDecoder(), ToTensor()], epochs=1)[0]
    loader = Loader(dataset, 8, seed=3, order=OrderOption.RANDOM, pipelines=lines)
    shares = set()
    for images, labels, weights in loader:
        ids = (weights[:, 0] * 4).long().tolist()
        share = float(labels[0, ids[0] % 10])
        if ids[0] % 10 != ids[-1] % 10:
            shares.add(round(share, 4))
            mixed = plain[ids] * share + plain[ids[::-1]] * (1 - share)
            assert np.abs(images.permute(0, 2, 3, 1).numpy() - mixed).max() < 1.01
    assert len(shares) > 1


def test_views_of_an_image_are_a_list(dataset, interpreted):
    steps = [SimpleRGBImageDecoder(), ToTensor(), python.Views()]
    lines = {"image": steps, "label": None, "weight": None}
    ((whole, turned),) = next(iter(Loader(dataset, 8, pipelines=lines)))
    assert turned.shape == (8, 8, 16, 3)
    assert torch.equal(turned, whole.flip(1)[:, ::2])


def test_results_of_another_form_than_declared_go_on_as_they_are(dataset, interpreted):
    """Through operations of Stoker and on tensors, in Python and where rows come one by one."""
    plain = rows(dataset, [SimpleRGBImageDecoder(), ToTensor()], epochs=1)[0]
    for make in (arrays.Halved, arrays.HalvedInALoop, python.Halved):
        steps = [SimpleRGBImageDecoder(), make(), RandomHorizontalFlip(0.0), ToTensor()]
        got = rows(dataset, [*steps, ToTorchImage()], epochs=1)[0]
        assert got.dtype == (np.float32 if make is arrays.Halved else np.float64)
        assert np.array_equal(got, plain.transpose(0, 3, 1, 2) / 2)


def test_a_dataset_is_a_file_as_scripts_expect(dataset, tmp_path):
    assert dataset.is_file()
    assert Reader(dataset).num_samples == SAMPLES
    assert Reader(dataset).field_names == ["image", "label", "weight"]
    with open_dataset(dataset) as by_file, open_dataset(f"{dataset}.stoker") as by_folder:
        assert by_file.fingerprint == by_folder.fingerprint
    alone = tmp_path / "alone.beton"
    alone.write_bytes(dataset.read_bytes())
    with pytest.raises(DatasetError, match=r"expected its folder .*alone.beton.stoker, which is m"):
        Loader(alone, 8)


def test_a_file_of_ffcv_names_the_folder_that_was_packed_from_it(tmp_path):
    """The file was written by FFCV."""
    file = tmp_path / "old.beton"
    file.write_bytes(lzma.decompress((BETONS / "pictures.beton.xz").read_bytes()))
    with pytest.raises(DatasetError, match=r"packed once: run `stoker pack .*old.beton .*stoker`"):
        Loader(file, 8)
    code, _, errors = call("pack", file, f"{file}.stoker")
    assert code == 0, errors
    assert Reader(file).num_samples == len(open_dataset(file)) > 0
    later = (tmp_path / "old.beton.stoker" / NAME).stat().st_mtime_ns + 1
    os.utime(file, ns=(later, later))
    with pytest.raises(DatasetError, match=r"changed after .*stoker was packed from it: run"):
        Loader(file, 1)


def test_the_file_of_a_dataset_may_be_given_to_a_daemon(dataset, interpreted):
    with StokerLoader(dataset, pipeline=stored, batch_size=8, workers=1, shuffle=False) as loader:
        images = np.concatenate([np.asarray(batch.image) for batch in loader])
    plain = rows(dataset, [SimpleRGBImageDecoder(), ToTensor()], epochs=1)[0]
    assert np.array_equal(images, plain)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (
            "loader.loader",
            "Loader OrderOption ORDER_TYPE ORDER_MAP DEFAULT_OS_CACHE DEFAULT_PROCESS_CACHE",
        ),
        ("fields.base", "Field ARG_TYPE"),
        ("fields.ndarray", "NDArrayField NDArrayDecoder TorchTensorField"),
        ("fields.bytes", "BytesField BytesDecoder"),
        ("fields.json", "JSONField"),
        ("fields.basics", "IntField FloatField IntDecoder FloatDecoder Operation"),
        ("fields.rgb_image", "RGBImageField SimpleRGBImageDecoder CenterCropRGBImageDecoder"),
        ("pipeline", "Compiler Operation PipelineSpec State AllocationQuery"),
        ("pipeline.operation", "Operation AllocationQuery"),
        ("pipeline.pipeline_spec", "PipelineSpec"),
        ("traversal_order", "TraversalOrder Random Sequential QuasiRandom"),
        ("traversal_order.base", "TraversalOrder"),
        ("traversal_order.random", "Random"),
        ("pipeline.allocation_query", "AllocationQuery"),
        ("pipeline.state", "State"),
        ("pipeline.compiler", "Compiler"),
        ("transforms.ops", "ToTensor ToDevice ToTorchImage Convert View"),
        ("transforms.common", "Squeeze"),
        ("transforms.flip", "RandomHorizontalFlip"),
        ("transforms.cutout", "Cutout"),
        ("transforms.translate", "RandomTranslate"),
        ("transforms.normalize", "NormalizeImage"),
        ("transforms.replace_label", "ReplaceLabel"),
        ("transforms.module", "ModuleWrapper"),
        ("transforms.mixup", "ImageMixup LabelMixup MixupToOneHot"),
        ("transforms.poisoning", "Poison"),
        ("transforms.random_resized_crop", "RandomResizedCrop"),
        ("transforms.color_jitter", "RandomBrightness RandomContrast RandomSaturation"),
        ("reader", "Reader"),
        ("writer", "DatasetWriter"),
    ],
)
def test_names_are_where_scripts_import_them(module, names):
    found = importlib.import_module(f"stoker.compat.ffcv.{module}")
    assert [name for name in names.split() if not hasattr(found, name)] == []
