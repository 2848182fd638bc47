"""Decisions that pipelines share: `SynchronizeSeed`, streams of a class, and what is refused."""

import numpy as np
import pytest
import torch
from ffcv_ops import Shift

from stoker.compat.ffcv import Loader
from stoker.compat.ffcv.fields.decoders import (
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
)
from stoker.compat.ffcv.transforms import (
    RandomHorizontalFlip,
    RandomTranslate,
    SynchronizeSeed,
    ToTensor,
)
from stoker.rng.draws import uniform
from stoker.rng.streams import make_key, stream_key

pytestmark = pytest.mark.usefixtures("interpreted")


class Noise(torch.nn.Module):
    def __init__(self, scale=1):
        super().__init__()
        self.scale = scale

    def forward(self, images):
        return images + self.scale * torch.rand(len(images), 1, 1, 1)

    def extra_repr(self):
        return f"scale={self.scale}"


class ImageTurn(Shift):
    stream = "turn"


class MaskTurn(Shift):
    stream = "turn"


def decoder():
    return SimpleRGBImageDecoder()


def crop():
    return RandomResizedCropRGBImageDecoder((16, 16))


def load(path, left, right):
    """A batch of both views, as signed numbers."""
    lines = {"left": left, "right": right, "weight": None}
    batch = next(iter(Loader(path, batch_size=12, seed=5, pipelines=lines)))
    return tuple(torch.as_tensor(part).to(torch.int64) for part in batch)


def tensors(path, left, right):
    """The same of lists without decoder and `ToTensor`, as they are."""
    lines = {
        name: [decoder(), ToTensor(), *steps] for name, steps in (("left", left), ("right", right))
    }
    return next(iter(Loader(path, batch_size=12, seed=5, pipelines={**lines, "weight": None})))


def decisions(stream):
    keys = [make_key(5, stream_key(stream), row, 0) for row in range(12)]
    return [uniform(key, 0) < 0.5 for key in keys]


def flipped(images, flips):
    pairs = zip(images, flips, strict=True)
    return torch.stack([image.flip(1) if flip else image for image, flip in pairs])


def differ_by_one_number_each(left, right):
    """Each image differs from the other view by one number, as `Shift` leaves it."""
    by = (left - right) % 256
    assert len(by[:, 0, 0, 0].unique()) > 3
    return torch.equal(by, by[:, :1, :1, :1].expand_as(by))


@pytest.mark.as_a_user
def test_the_lists_of_issue_86(two_views):
    """Its example: crop and flip are shared, although one list has a jitter between them."""
    left, right = load(
        two_views,
        [SynchronizeSeed(), crop(), Shift(), SynchronizeSeed(), RandomHorizontalFlip()],
        [SynchronizeSeed(), crop(), SynchronizeSeed(), RandomHorizontalFlip()],
    )
    assert differ_by_one_number_each(left, right)


def test_one_mark_covers_all_that_follows(two_views):
    left, right = load(
        two_views,
        [SynchronizeSeed(), crop(), Shift(), RandomHorizontalFlip()],
        [SynchronizeSeed(), crop(), RandomHorizontalFlip()],
    )
    assert differ_by_one_number_each(left, right)
    flips = decisions("SynchronizeSeed(0)/RandomHorizontalFlip")
    crops = decisions("SynchronizeSeed(0)/RandomResizedCropRGBImageDecoder")
    assert 2 < sum(a == b for a, b in zip(flips, crops, strict=True)) < 10


@pytest.mark.parametrize("mark", [(), (SynchronizeSeed(None),)])
def test_without_a_mark_decisions_differ(two_views, mark):
    stored = load(two_views, [decoder()], [decoder()])
    left, right = load(
        two_views,
        [decoder(), *mark, RandomHorizontalFlip()],
        [decoder(), *mark, RandomHorizontalFlip()],
    )
    streams = [f"{field}/RandomHorizontalFlip" for field in ("left", "right")]
    assert decisions(streams[0]) != decisions(streams[1])
    assert torch.equal(left, flipped(stored[0], decisions(streams[0])))
    assert torch.equal(right, flipped(stored[1], decisions(streams[1])))


def test_the_marked_part_ends_at_none(two_views):
    left, right = load(
        two_views,
        [decoder(), SynchronizeSeed(), RandomHorizontalFlip(), SynchronizeSeed(None), Shift()],
        [decoder(), SynchronizeSeed(), RandomHorizontalFlip()],
    )
    assert differ_by_one_number_each(left, right)
    lists = [
        [decoder(), SynchronizeSeed(), Shift(), SynchronizeSeed(None), RandomHorizontalFlip()]
        for _ in range(2)
    ]
    left, right = load(two_views, *lists)
    assert not torch.equal(left, right)


def test_marks_of_different_numbers_and_repeats_of_a_class_decide_apart(two_views):
    stored, _ = load(two_views, [decoder()], [decoder()])

    def steps():
        flips = [RandomHorizontalFlip() for _ in range(3)]
        return [SynchronizeSeed(1), *flips[:2], SynchronizeSeed(2), flips[2]]

    left, right = load(two_views, [decoder(), *steps()], [decoder(), *steps()])
    streams = [f"SynchronizeSeed({mark})" for mark in ("1", "1", "2")]
    names = [f"{s}/RandomHorizontalFlip{e}" for s, e in zip(streams, ("", "/2", ""), strict=True)]
    found = [decisions(name) for name in names]
    assert len({tuple(flips) for flips in found}) == 3
    expected = flipped(flipped(flipped(stored, found[0]), found[1]), found[2])
    assert torch.equal(left, expected)
    assert torch.equal(right, expected)


def test_modules_after_a_mark_and_one_module_in_two_pipelines(two_views):
    left, right = tensors(two_views, [SynchronizeSeed(), Noise()], [SynchronizeSeed(), Noise()])
    assert torch.equal(left, right)
    shared = Noise()
    left, right = tensors(two_views, [shared], [shared])
    assert torch.equal(left, right)
    left, right = tensors(two_views, [Noise()], [Noise()])
    assert not torch.equal(left, right)


@pytest.mark.parametrize("marked", [True, False])
def test_two_classes_of_one_stream(two_views, marked):
    mark = [SynchronizeSeed()] if marked else []
    left, right = load(two_views, [decoder(), *mark, ImageTurn()], [decoder(), *mark, MaskTurn()])
    assert torch.equal(left, right)


def test_a_mark_that_is_set_between_epochs_takes_effect(two_views):
    mark = SynchronizeSeed(None)
    lists = [[decoder(), mark, RandomHorizontalFlip()] for _ in range(2)]
    lines = {"left": lists[0], "right": lists[1], "weight": None}
    loader = Loader(two_views, batch_size=12, seed=5, pipelines=lines)
    assert not np.array_equal(*next(iter(loader)))
    mark.seed_offset = 3
    assert np.array_equal(*next(iter(loader)))


def test_parameters_that_decide_nothing_may_differ(two_views):
    left, right = load(
        two_views,
        [decoder(), SynchronizeSeed(), RandomTranslate(3, fill=(1, 1, 1))],
        [decoder(), SynchronizeSeed(), RandomTranslate(3, fill=(255, 255, 255))],
    )
    apart = left != right
    assert (left[apart] == 1).all()
    assert (right[apart] == 255).all()
