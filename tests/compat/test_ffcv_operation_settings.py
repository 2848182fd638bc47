"""Attributes that a script sets after it built its loader take effect at the next epoch."""

import numpy as np
import pytest
import torch
from PIL import Image

from stoker.compat.ffcv import Loader
from stoker.compat.ffcv.fields import RGBImageField
from stoker.compat.ffcv.fields.decoders import (
    CenterCropRGBImageDecoder,
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
)
from stoker.compat.ffcv.pipeline import Compiler, Operation
from stoker.compat.ffcv.transforms import Convert, NormalizeImage, ToTensor

pytestmark = pytest.mark.usefixtures("interpreted")


class Add(Operation):
    """Adds what its settings say, read when its code is generated."""

    def __init__(self, amount):
        self.settings = {"amount": [amount]}

    def generate_code(self):
        amount = self.settings["amount"][0]

        def add(images, dst):
            return images + np.uint8(amount)

        return add

    def declare_state_and_memory(self, previous_state):
        return previous_state, None


class Times(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, batch):
        return batch * self.factor


def images(loader):
    return torch.cat([batch[0] for batch in loader]).numpy()


def load(path, *operations, **arguments):
    """A loader of the images alone."""
    given = {"batch_size": 10, "pipelines": {"image": [*operations], "label": None}, **arguments}
    return Loader(path, **given)


@pytest.fixture(scope="module")
def photos():
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (4, 6, 8, 3), np.uint8)
    return [np.asarray(Image.fromarray(one).resize((80, 60), 2)) for one in small]


@pytest.fixture(scope="module")
def photos_path(photos, write):
    return write({"image": RGBImageField()}, [(photo,) for photo in photos])


def test_progressive_resizing_by_center_crops(photos, photos_path):
    decoder = CenterCropRGBImageDecoder((16, 16), ratio=1.0)
    loader = Loader(photos_path, 4, pipelines={"image": [decoder, ToTensor()]})
    for side in (24, 12, 36):
        decoder.output_size = (side, side)
        got = images(loader)
        assert got.shape == (4, side, side, 3)
        width, left = side * 4 // 3, side // 6
        for one, photo in zip(got, photos, strict=True):
            whole = Image.fromarray(photo).resize((width, side), Image.Resampling.BILINEAR)
            expected = np.asarray(whole)[:, left : left + side].astype(int)
            assert np.abs(one.astype(int) - expected).max() <= 1


def test_progressive_resizing_equals_a_loader_built_for_each_size(photos_path):
    def built(decoder):
        return Loader(photos_path, 4, seed=7, pipelines={"image": [decoder, ToTensor()]})

    decoder = RandomResizedCropRGBImageDecoder((16, 16))
    loader = built(decoder)
    for epoch, (size, scale) in enumerate([((16, 16), (0.08, 1.0)), ((24, 20), (0.5, 0.6))]):
        decoder.output_size, decoder.scale = size, scale
        fresh = built(RandomResizedCropRGBImageDecoder(size, scale))
        fresh.next_epoch = epoch
        assert np.array_equal(images(loader), images(fresh))


@pytest.mark.parametrize("how", ["item", "attribute"])
def test_settings_of_an_operation_on_arrays(packed, pictures, how):
    operation = Add(1)
    loader = load(packed, SimpleRGBImageDecoder(), operation, ToTensor())
    stored = np.stack([np.asarray(pictures[i][0]) for i in range(50)])
    assert np.array_equal(images(loader), stored + np.uint8(1))
    if how == "item":
        operation.settings["amount"][0] = 9
    else:
        operation.settings = {"amount": [9]}
    assert np.array_equal(images(loader), stored + np.uint8(9))


def test_tables_dtypes_modules_and_lists(packed, pictures):
    stored = np.stack([np.asarray(pictures[i][0]) for i in range(50)])
    normalize, convert = NormalizeImage([0] * 3, [1] * 3, np.float32), Convert(torch.float64)
    line = [SimpleRGBImageDecoder(), normalize, ToTensor(), convert]
    loader = Loader(packed, 10, pipelines={"image": line, "label": None})
    assert np.array_equal(images(loader), stored.astype(np.float64))
    normalize.table[:] = 2 * normalize.table
    convert.target_dtype = torch.float32
    assert images(loader).dtype == np.float32
    assert np.array_equal(images(loader), 2 * stored.astype(np.float32))
    line.append(Times(3))
    assert np.array_equal(images(loader), 6 * stored.astype(np.float32))


def test_a_running_epoch_keeps_its_settings(packed):
    convert = Convert(torch.float32)
    loader = load(packed, SimpleRGBImageDecoder(), ToTensor(), convert, batches_ahead=1)
    dtypes = []
    for (batch,) in loader:
        dtypes.append(batch.dtype)
        convert.target_dtype = torch.float64
    assert dtypes == [torch.float32] * 5
    assert images(loader).dtype == np.float64


def test_nothing_is_built_again_where_nothing_was_set(packed, monkeypatch):
    operation = Add(1)
    loader = load(packed, SimpleRGBImageDecoder(), operation, ToTensor())
    images(loader)
    monkeypatch.setattr(Loader, "_build", lambda self: pytest.fail("built again"))
    operation.settings = {"amount": [1]}
    images(loader)


def test_both_names_of_the_parallel_range(monkeypatch):
    assert Compiler.get_iterator() is Compiler.get_iterable() is range
    monkeypatch.setattr(Compiler, "_enabled", True)
    assert Compiler.get_iterator() is Compiler.get_iterable()
    assert Compiler.get_iterator() is not range
