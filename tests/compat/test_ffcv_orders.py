"""Orders that a script defines, several pipelines of one field, and names that are missing."""

import importlib

import numpy as np
import pytest

from stoker.compat.ffcv import Loader, OrderOption
from stoker.compat.ffcv.fields.decoders import (
    IntDecoder,
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
)
from stoker.compat.ffcv.loader.loader import ORDER_MAP
from stoker.compat.ffcv.loader.loader_orders import visits_of
from stoker.compat.ffcv.pipeline import PipelineSpec
from stoker.compat.ffcv.transforms import RandomHorizontalFlip, ToTensor
from stoker.compat.ffcv.traversal_order import Random, TraversalOrder
from stoker.protocol.errors import UnknownNameError

CROP = {"output_size": (8, 8), "scale": (0.2, 0.9)}


class Twice(TraversalOrder):
    """Each sample twice, the second time in another place; another order in each epoch."""

    def sample_order(self, epoch):
        found = np.random.default_rng([self.seed, epoch]).permutation(self.indices)
        return [*found, *np.roll(found, 1)]


class Backward(Random):
    def sample_order(self, epoch):
        return super().sample_order(epoch)[::-1]


class Given(TraversalOrder):
    ids = ()

    def sample_order(self, epoch):
        return self.ids


@pytest.fixture
def load(packed, interpreted):
    def make(order, batch=10, **options):
        lines = {
            "image": [RandomResizedCropRGBImageDecoder(**CROP), RandomHorizontalFlip(), ToTensor()],
            "label": [IntDecoder(), ToTensor()],
        }
        options = {"seed": 4, "pipelines": lines, **options}
        return Loader(packed, batch, order=order, **options)

    return make


def batches(loader):
    return [(images.numpy().copy(), labels[:, 0].tolist()) for images, labels in loader]


@pytest.mark.parametrize("option", list(OrderOption))
def test_the_orders_of_ffcv_are_those_of_the_options(load, option):
    by_option, by_class = load(option, 7), load(ORDER_MAP[option], 7)
    for _ in range(2):
        pairs = zip(batches(by_option), batches(by_class), strict=True)
        for (images, labels), (again, same) in pairs:
            assert np.array_equal(images, again)
            assert labels == same


def test_an_order_of_ones_own_decides_which_samples_come(load):
    loader = load(Twice, batch_size := 20, indices=np.arange(30), num_workers=1)
    again = load(lambda made: Twice(loader=made), batch_size, indices=np.arange(30), num_workers=3)
    seen = []
    for epoch in range(2):
        assert len(loader) == 3
        found = batches(loader)
        order = Twice(loader).sample_order(epoch)
        assert [label for _, labels in found for label in labels] == [n % 10 for n in order]
        images = np.concatenate([images for images, _ in found])
        assert np.array_equal(images, np.concatenate([one for one, _ in batches(again)]))
        rows = {}
        for number, image in zip(order, images, strict=True):
            rows.setdefault(number, set()).add(image.tobytes())
        assert sum(len(crops) == 2 for crops in rows.values()) >= 28
        seen.append(order)
    assert seen[0] != seen[1]


def test_an_order_may_begin_with_that_of_stoker(load):
    forward = [label for _, labels in batches(load(Random)) for label in labels]
    assert [label for _, labels in batches(load(Backward)) for label in labels] == forward[::-1]


def test_a_running_epoch_keeps_its_order(load, monkeypatch):
    """The script answers differently each time, and another epoch is asked for while one runs."""
    answers = iter([np.arange(20), np.arange(20, 40), np.arange(40, 50), np.arange(10)])
    monkeypatch.setattr(Given, "sample_order", lambda self, epoch: next(answers))
    loader = load(Given, 1, batches_ahead=1)
    running = iter(loader)
    labels = [int(next(running)[1])]
    for loader.next_epoch in (1, 2, 3):
        assert len(loader) in {20, 10}
    labels += [int(label) for _, label in running]
    assert labels == [n % 10 for n in range(20)]


def test_an_order_may_have_any_length(load, monkeypatch):
    for count, drop_last, steps in ((25, True, 2), (25, False, 3), (0, True, 0), (3, True, 0)):
        monkeypatch.setattr(Given, "ids", list(range(count)))
        loader = load(Given, drop_last=drop_last)
        assert len(loader) == len(batches(loader)) == steps


def test_visits_count_how_often_an_id_came_before():
    assert visits_of(np.array([5, 3, 5, 5, 3, 9])).tolist() == [0, 0, 1, 2, 1, 0]
    assert visits_of(np.array([], np.int64)).tolist() == []


def test_a_specification_may_have_its_decoder_among_its_operations(load):
    decoder = SimpleRGBImageDecoder
    lines = {
        "image": PipelineSpec("image", transforms=[decoder(), ToTensor()]),
        "first": PipelineSpec("image", decoder(), [ToTensor()]),
        "array": PipelineSpec("image", decoder(), None),
        "default": PipelineSpec("image", transforms=None),
        "label": None,
    }
    for image, *others in load(OrderOption.SEQUENTIAL, pipelines=lines):
        assert all(np.array_equal(image, other) for other in others)


def test_several_pipelines_of_one_field(load, pictures):
    crop = RandomResizedCropRGBImageDecoder
    lines = {
        "view": PipelineSpec("image", crop(**CROP), [ToTensor()]),
        "image": [crop(**CROP), ToTensor()],
        "whole": PipelineSpec("image", SimpleRGBImageDecoder(), transforms=[ToTensor()]),
        "number": PipelineSpec("label"),
        "label": None,
    }
    for images, views, wholes, numbers in load(OrderOption.SEQUENTIAL, pipelines=lines):
        assert images.shape == views.shape == (10, 8, 8, 3)
        assert (images != views).flatten(1).any(dim=1).sum() >= 9
        ids = wholes[:, 0, 0, 0].tolist()
        assert all(
            np.array_equal(w, np.asarray(pictures[n][0])) for n, w in zip(ids, wholes, strict=True)
        )
        assert numbers[:, 0].tolist() == [n % 10 for n in ids]
    alone = {**lines, "view": None, "whole": None, "number": None}
    with pytest.raises(UnknownNameError, match=r"no field 'view'.*give PipelineSpec\(field, deco"):
        load(OrderOption.SEQUENTIAL, pipelines=alone)
    with pytest.raises(UnknownNameError, match=r"pipelines\['x'\]: the dataset has no field 'y'"):
        load(OrderOption.SEQUENTIAL, pipelines={"x": PipelineSpec("y")})


@pytest.mark.parametrize(
    ("module", "name", "instead"),
    [
        ("libffcv", "memcpy", "use the decoders of fields.decoders, or NumPy and OpenCV"),
        ("types", "HeaderType", "reader.Reader has num_samples and field_names"),
        ("utils", "decode_null_terminated_string", "copy the function that you need into your"),
        ("memory_managers", "OSCacheManager", "the system caches their pages: leave it out"),
        ("transforms", "RandomGrayscale", "use stoker.ops.grayscale in a Stoker pipeline"),
    ],
)
def test_names_without_a_meaning_say_what_to_use(module, name, instead):
    with pytest.raises(ImportError) as caught:
        exec(f"from stoker.compat.ffcv.{module} import {name}", {})
    assert str(caught.value).startswith(f"stoker.compat.ffcv.{module} has no {name}; ")
    assert instead in str(caught.value)
    found = importlib.import_module(f"stoker.compat.ffcv.{module}")
    assert not hasattr(found, name)
    with pytest.raises(AttributeError, match=f"has no {name}; "):
        getattr(found, name)
