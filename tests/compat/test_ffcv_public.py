"""FFCV's documented transforms, and operations of the forms that public code has."""

import importlib
import itertools

import numpy as np
import public_ops
import pytest
import torch

from stoker import ops
from stoker.compat.ffcv import Loader, transforms
from stoker.compat.ffcv.compiled_step import BatchRows, CompiledStep
from stoker.compat.ffcv.field_reading import array_state
from stoker.compat.ffcv.fields.basics import IntDecoder
from stoker.compat.ffcv.fields.rgb_image import SimpleRGBImageDecoder
from stoker.compat.ffcv.pipeline import Compiler
from stoker.pipeline import pipeline
from stoker.protocol.errors import UsageError
from stoker.rng.draws import integers, uniform
from stoker.rng.streams import make_key, stream_key

DOCUMENTED = {
    "Convert", "Cutout", "ImageMixup", "LabelMixup", "MixupToOneHot", "ModuleWrapper",
    "NormalizeImage", "Poison", "RandomBrightness", "RandomContrast", "RandomHorizontalFlip",
    "RandomResizedCrop", "RandomSaturation", "RandomTranslate", "ReplaceLabel", "Squeeze",
    "ToDevice", "ToTensor", "ToTorchImage", "View",
}  # fmt: skip
"""The classes that docs.ffcv.io documents in ffcv.transforms, and `Squeeze` and `View`."""
IMAGES, LABELS = array_state((6, 6, 3), "uint8"), array_state((1,), "int64")
ROWS = BatchRows(7, 2, np.array([40, 3, 17, 2**40, 5, 6, 9, 1]))
KEYS = [make_key(7, stream_key("s"), int(number), 2) for number in ROWS.ids]


@pytest.fixture
def photos():
    return np.random.default_rng(0).integers(0, 256, (len(ROWS.ids), 6, 6, 3)).astype(np.uint8)


@pytest.fixture
def both(monkeypatch):
    """Run an operation plain and compiled: both results are the same bytes."""

    def run(operation, batch, state=IMAGES):
        found = []
        for machine in (False, True):
            monkeypatch.setattr(Compiler, "_enabled", machine)
            step = CompiledStep(operation, state, f"{type(operation).__name__} of field 'x'", "s")
            found.append(step(batch.copy(), ROWS).copy())
        assert found[0].dtype == found[1].dtype
        assert found[0].tobytes() == found[1].tobytes()
        return found[0]

    return run


@pytest.fixture
def plain(interpreted):
    """Run an operation plain; `both` compiles those whose code is of another kind."""

    def run(operation, batch, state=IMAGES):
        return CompiledStep(operation, state, type(operation).__name__, "s")(batch.copy(), ROWS)

    return run


def test_every_documented_transform_is_there():
    assert set(transforms.__all__) >= DOCUMENTED
    for name in DOCUMENTED:
        module = importlib.import_module("stoker.compat.ffcv.transforms")
        assert isinstance(getattr(module, name), type)


@pytest.mark.as_a_user
def test_a_script_with_every_documented_transform(packed, monkeypatch):
    """Interpreted: the other tests compile the transforms."""
    monkeypatch.setattr(Compiler, "_enabled", False)
    mean, std = np.array([120.0, 110.0, 100.0]), np.array([60.0, 50.0, 40.0])
    image = [
        SimpleRGBImageDecoder(),
        transforms.Poison(np.full((32, 32, 3), 255), np.full((32, 32), 0.5), [3, 4]),
        transforms.RandomResizedCrop(scale=(0.5, 1.0), ratio=(0.75, 4 / 3), size=24),
        transforms.RandomHorizontalFlip(0.5),
        transforms.RandomBrightness(0.4),
        transforms.RandomContrast(0.4, p=0.8),
        transforms.RandomSaturation(0.4),
        transforms.RandomTranslate(padding=2),
        transforms.Cutout(4, (127, 127, 127)),
        transforms.ImageMixup(alpha=0.2, same_lambda=True),
        transforms.NormalizeImage(mean, std, np.float16),
        transforms.ToTensor(),
        transforms.ToDevice(torch.device("cpu"), non_blocking=True),
        transforms.ToTorchImage(),
        transforms.Convert(torch.float32),
        transforms.ModuleWrapper(torch.nn.AvgPool2d(2)),
        torch.nn.ReLU(),
    ]
    label = [
        IntDecoder(),
        transforms.ReplaceLabel([1, 2], 7),
        transforms.LabelMixup(alpha=0.2, same_lambda=True),
        transforms.ToTensor(),
        transforms.MixupToOneHot(10),
    ]
    epochs = []
    for _ in range(2):
        loader = Loader(packed, 25, seed=1, pipelines={"image": image, "label": label})
        epochs.append([(images.clone(), labels.clone()) for images, labels in loader])
    for (images, labels), (again, same) in zip(*epochs, strict=True):
        assert (images.shape, images.dtype) == ((25, 3, 12, 12), torch.float32)
        assert (labels.shape, labels.sum(dim=1).tolist()) == ((25, 10), [1.0] * 25)
        assert torch.equal(images, again)
        assert torch.equal(labels, same)
    line = [IntDecoder(), transforms.ToTensor(), transforms.View(torch.float64)]
    line += [transforms.View(torch.int64), transforms.Squeeze()]
    (numbers,) = next(iter(Loader(packed, 10, pipelines={"image": None, "label": line})))
    assert numbers.tolist() == list(range(10))


def gray(image):
    parts = np.float64([0.2989, 0.587, 0.114]) * image
    return (parts[..., 0] + parts[..., 1] + parts[..., 2]).astype(np.uint8)


def blended(image, other, part):
    return (part * image + (1 - part) * other).clip(0, 255).astype(np.uint8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("RandomBrightness", lambda image: 0.0),
        ("RandomContrast", lambda image: gray(image).mean()),
        ("RandomSaturation", lambda image: gray(image)[..., None]),
    ],
)
def test_colors_are_blended_by_the_rows_draws(both, photos, name, other):
    got = both(getattr(transforms, name)(1.5, p=0.7), photos)
    chosen = [uniform(key, 0) < 0.7 for key in KEYS]
    assert 0 < sum(chosen) < len(KEYS)
    for image, result, key, change in zip(photos, got, KEYS, chosen, strict=True):
        expected = blended(image, other(image), 0.0 + uniform(key, 1) * 2.5)
        assert np.array_equal(result, expected if change else image)


@pytest.mark.slow
def test_poison_blends_the_samples_that_it_names(both, photos):
    mask = np.random.default_rng(1).integers(0, 256, (6, 6, 3))
    alpha = np.random.default_rng(2).random((6, 6))
    got = both(transforms.Poison(mask, alpha, indices=[9, 3], clamp=(20, 200)), photos)
    for number, image, result in zip(ROWS.ids, photos, got, strict=True):
        level = image * (1 - alpha[..., None]) + mask * alpha[..., None]
        poisoned = level.clip(20, 200).astype(np.uint8)
        assert np.array_equal(result, poisoned if number in {9, 3} else image)


def test_the_crop_is_that_of_the_op(packed, pictures):
    line = [SimpleRGBImageDecoder(), transforms.RandomResizedCrop((0.1, 0.8), (0.5, 2.0), 9)]
    loader = Loader(packed, 10, seed=3, pipelines={"image": [*line, transforms.ToTensor()]})

    @pipeline
    def crop(sample):
        return {
            "image": ops.random_resized_crop(
                sample.image, size=(9, 9), scale=(0.1, 0.8), ratio=(0.5, 2.0),
                stream="image/RandomResizedCrop",
            )
        }  # fmt: skip

    images, _ = next(iter(loader))
    for number in range(10):
        stored = np.asarray(pictures[number][0])
        assert np.array_equal(images[number], crop({"image": stored}, seed=3, id=number)["image"])


def test_probabilities_are_checked_when_set_between_epochs(packed, monkeypatch):
    monkeypatch.setattr(Compiler, "_enabled", False)
    steps = transforms.RandomHorizontalFlip(0.5), transforms.RandomContrast(0.4)
    line = [SimpleRGBImageDecoder(), *steps, transforms.ToTensor()]
    loader = Loader(packed, 10, pipelines={"image": line, "label": None})
    for step, name in zip(steps, ("flip_prob", "p"), strict=True):
        kept = getattr(step, name)
        setattr(step, name, 50)
        with pytest.raises(UsageError, match=r"from 0 to 1, got .*50"):
            iter(loader)
        setattr(step, name, kept)
    assert len(list(loader)) == 5


@pytest.mark.parametrize("machine", [pytest.param(True, marks=pytest.mark.slow), False])
def test_relabel_classes(packed, monkeypatch, machine):
    """A table of the classes, and one of the samples: neither fits the noise of the first trial."""
    monkeypatch.setattr(Compiler, "_enabled", machine)
    table = {number: (number * 7) % 10 for number in range(10)}
    line = [IntDecoder(), public_ops.RelabelClasses(table), public_ops.FixedLabels(np.arange(50))]
    for chosen in (None, [49, 3, 8]):
        steps = [*line[: 2 if chosen is None else 3], transforms.ToTensor()]
        lines = {"image": None, "label": steps}
        loader = Loader(packed, 3, indices=chosen, drop_last=False, pipelines=lines)
        got = [number for (labels,) in loader for number in labels[:, 0].tolist()]
        assert got == (chosen or [table[number % 10] for number in range(50)])


def test_hidden_tokens(plain):
    got = plain(public_ops.HiddenTokens(7, 5, 6, 2), np.zeros((len(ROWS.ids), 1), np.int64), LABELS)
    assert got.dtype == np.int8
    assert ((got % 2).sum(axis=1) == 7).all()
    assert ((got >= 2).sum(axis=1) == 4).all()
    assert len({row.tobytes() for row in got}) == len(got)
    for row, key in zip(got, KEYS, strict=True):
        top, left = (integers(key, 29 + i, side) for i, side in enumerate((5, 6)))
        corners = {(y % 5, x % 6) for y in (top, top + 1) for x in (left, left + 1)}
        assert {divmod(at, 6) for at in np.flatnonzero(row >= 2).tolist()} == corners


@pytest.mark.slow
def test_gray_views(photos):
    """Compiled alone: plain, NumPy divides float32 by 255 in float32, and numba in float64."""
    got = CompiledStep(public_ops.GrayViews(0.5), IMAGES, "GrayViews", "s")(photos, ROWS)
    assert got.shape == (len(photos), 2, 6, 6, 3)
    for image, views, key in zip(photos, got, KEYS, strict=True):
        for k, view in enumerate(views):
            if uniform(key, k) < 0.5:
                assert (np.ptp(view, axis=2) == 0).all()
                assert np.abs(view[..., 0] - image.mean(axis=2)).max() <= 1
            else:
                assert np.array_equal(view, image)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:First-class function type")
def test_some_of(both, photos):
    functions = [public_ops.inverted, public_ops.upside_down, public_ops.swapped]
    got = both(public_ops.SomeOf(functions), photos)
    pairs = set()
    for image, result in zip(photos, got, strict=True):
        fitting = []
        for pair in itertools.permutations(range(3), 2):
            changed = image.copy()
            for place in pair:
                functions[place](changed)
            if np.array_equal(changed, result):
                fitting.append(frozenset(pair))
        assert len(set(fitting)) == 1
        pairs |= set(fitting)
    assert len(pairs) == 3


def test_quarters(plain, photos):
    got = plain(public_ops.Quarters(0.7, steps=[1, 3]), photos)
    for image, result, key in zip(photos, got, KEYS, strict=True):
        turns = (1, 3)[integers(key, 1, 2)] if uniform(key, 0) <= 0.7 else 0
        assert np.array_equal(result, np.rot90(image, turns))


def test_glare(plain, photos):
    got = plain(public_ops.Glare(0.8, p=0.6), photos)
    for image, result, key in zip(photos, got, KEYS, strict=True):
        part = max(0, 1 - 0.8) + uniform(key, 1) * (1 - max(0, 1 - 0.8))
        expected = blended(image, 255, part)
        assert np.array_equal(result, expected if uniform(key, 0) < 0.6 else image)
