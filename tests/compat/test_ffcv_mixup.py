"""FFCV's mixup: neighbors of a batch, one share for image and label, and what is refused."""

import numpy as np
import pytest
import torch
from corrupt_labels import CorruptFixedLabels
from scipy import stats

from stoker.compat.ffcv import Loader, OrderOption
from stoker.compat.ffcv.compiled_step import BatchRows, CompiledStep
from stoker.compat.ffcv.field_reading import array_state
from stoker.compat.ffcv.fields.basics import IntDecoder
from stoker.compat.ffcv.fields.decoders import SimpleRGBImageDecoder
from stoker.compat.ffcv.pipeline import Compiler
from stoker.compat.ffcv.transforms import (
    ImageMixup,
    LabelMixup,
    MixupToOneHot,
    ToTensor,
)
from stoker.ops.kernels.gammas import beta
from stoker.rng.draws import integers, uniform
from stoker.rng.streams import make_key, stream_key


def load(path, image, label, **arguments):
    lines = {
        "image": [SimpleRGBImageDecoder(), *image, ToTensor()],
        "label": [IntDecoder(), *label],
    }
    given = {"batch_size": 20, "seed": 6, "drop_last": False, **arguments}
    return Loader(path, pipelines=lines, **given)


def share(row, epoch, alpha=0.4):
    """The share that a row draws: of seed 6, in any batch."""
    return beta(make_key(6, stream_key("mixup"), row, epoch), 0, alpha, alpha)


@pytest.mark.parametrize(
    ("same", "machine"), [(True, True), (True, False), (False, False)], ids=str
)
def test_images_and_labels_are_mixed_with_the_row_before(
    packed, pictures, monkeypatch, same, machine
):
    monkeypatch.setattr(Compiler, "_enabled", machine)
    image, label = [ImageMixup(0.4, same)], [LabelMixup(alpha=0.4, same_lambda=same), ToTensor()]
    stored = np.stack([np.asarray(pictures[i][0]) for i in range(50)])
    loader = load(packed, image, label)
    for epoch in range(2):
        start = 0
        for images, labels in loader:
            rows = np.arange(start, start + len(images))
            before = np.roll(rows, 1)
            shares = np.array([share(int(rows[0] if same else row), epoch) for row in rows])
            each = shares[:, None, None, None]
            mixed = each * stored[rows] + (1 - each) * stored[before]
            assert np.array_equal(images, mixed.astype(np.uint8))
            expected = np.stack([rows % 10, before % 10, shares], axis=1).astype(np.float32)
            assert np.array_equal(labels, expected)
            assert labels.dtype == torch.float32
            start += len(images)
        assert start == 50


def test_shares_are_beta(interpreted):
    step = CompiledStep(LabelMixup(0.7, same_lambda=False), array_state((1,), "int64"), "L", "s")
    shares = step(np.zeros((3000, 1), np.int64), BatchRows(1, 0, np.arange(3000)))[:, 2]
    assert stats.kstest(shares, stats.beta(0.7, 0.7).cdf).pvalue > 1e-3


def test_a_share_depends_on_epoch_and_sample_not_on_the_order(packed, interpreted):
    found = []
    for order in (OrderOption.SEQUENTIAL, OrderOption.RANDOM):
        label = [LabelMixup(0.4, same_lambda=False), ToTensor()]
        for images, labels in load(packed, [], label, order=order):
            found += zip(images[:, 0, 0, 0].tolist(), labels[:, 2].tolist(), strict=True)
    assert len(found) == 100
    assert len(set(found)) == 50


def test_one_hot_weights(packed, interpreted):
    label = [LabelMixup(0.4, same_lambda=False), ToTensor()]
    mixed = torch.cat([labels for _, labels in load(packed, [], label)])
    weights = torch.cat([labels for _, labels in load(packed, [], [*label, MixupToOneHot(10)])])
    assert (weights.shape, weights.dtype) == ((50, 10), torch.float32)
    assert torch.equal(weights.sum(dim=1), torch.ones(50))
    for row, (mine, other, part) in zip(weights, mixed.tolist(), strict=True):
        assert row[int(mine)] == part
        assert row[int(other)] == 1 - torch.tensor(part)


def test_equal_labels_have_all_the_weight():
    mixed = torch.tensor([[2.0, 2.0, 0.3], [0.0, 1.0, 1.0]])
    weights = MixupToOneHot(3).generate_code()(mixed, None)
    assert weights.tolist() == [[0, 0, 1], [1, 0, 0]]
    assert mixed[0, 2] == torch.tensor(0.3)


def test_corrupt_fixed_labels_of_ffcvs_guide(packed):
    """By the sample's id: the same labels are replaced in each epoch, in any order."""
    epochs = []
    for order in (OrderOption.SEQUENTIAL, OrderOption.RANDOM):
        lines = {"label": [IntDecoder(), CorruptFixedLabels(0.3), ToTensor()]}
        loader = Loader(packed, 10, order=order, seed=len(epochs), pipelines=lines)
        pairs = [
            (int(image[0, 0, 0]), int(label))
            for images, labels in loader
            for image, label in zip(images, labels, strict=True)
        ]
        epochs.append(sorted(pairs))
    assert epochs[0] == epochs[1]
    seeds = [make_key(0, stream_key("np.random.seed"), row, 0) for row in range(50)]
    corrupt = [uniform(key, 0) < 0.3 for key in seeds]
    assert 5 < sum(corrupt) < 25
    expected = [integers(key, 1, 10) if corrupt[i] else i % 10 for i, key in enumerate(seeds)]
    assert epochs[0] == list(enumerate(expected))
