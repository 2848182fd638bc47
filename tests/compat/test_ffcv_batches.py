"""Operations that read other rows of the batch get all rows at once, without a declaration."""

import ast
import textwrap

import batch_ops
import numpy as np
import pytest
from batch_ops import Blend, BlendLabels, Spread

from stoker.compat.ffcv import DatasetWriter, Loader, OrderOption
from stoker.compat.ffcv.batch_need import POINTS
from stoker.compat.ffcv.fields import FloatField, IntField, RGBImageField
from stoker.compat.ffcv.fields.decoders import FloatDecoder, IntDecoder, SimpleRGBImageDecoder
from stoker.compat.ffcv.pipeline import Compiler
from stoker.compat.ffcv.row_reads import row_reads
from stoker.compat.ffcv.transforms import ToTensor
from stoker.rng.draws import uniform
from stoker.rng.streams import make_key

SAMPLES, BATCH = 24, 8
MEANS = "m = np.zeros(n)\nfor k in range(n):\n  m[k] = x[k].mean()"
IMAGES = np.random.default_rng(0).integers(0, 256, (SAMPLES, 16, 16, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("batches") / "train.beton"
    fields = {"image": RGBImageField(), "label": IntField(), "id": FloatField()}
    samples = [(image, n % 10, n) for n, image in enumerate(IMAGES)]
    DatasetWriter(path, fields).from_indexed_dataset(samples)
    return path


def batches(dataset, image=(), label=(), *, workers=1, epochs=1, order=OrderOption.RANDOM):
    """The batches of some epochs: images, labels and ids."""
    lines = {
        "image": [SimpleRGBImageDecoder(), *image, ToTensor()],
        "label": [IntDecoder(), *label],
        "id": [FloatDecoder(), ToTensor()],
    }
    loader = Loader(dataset, BATCH, num_workers=workers, order=order, seed=3, pipelines=lines)
    return [
        (images.numpy(), np.asarray(labels), ids[:, 0].long().numpy())
        for _ in range(epochs)
        for images, labels, ids in loader
    ]


@pytest.mark.parametrize(
    ("machine", "one_share"),
    [pytest.param(True, False, marks=pytest.mark.slow), (False, True), (False, False)],
)
def test_a_mixup_of_ones_own_mixes_image_and_label_alike(dataset, monkeypatch, machine, one_share):
    monkeypatch.setattr(Compiler, "_enabled", machine)
    steps = [Blend(0.4, one_share)], [BlendLabels(0.4, one_share), ToTensor()]
    found = batches(dataset, *steps, epochs=2)
    shares = set()
    for images, labels, ids in found:
        before = np.roll(ids, 1)
        assert np.array_equal(labels[:, :2], np.stack([ids % 10, before % 10], axis=1))
        share = labels[:, 2].astype(np.float64)[:, None, None, None]
        expected = share * IMAGES[ids] + (1 - share) * IMAGES[before]
        assert np.abs(images - expected).max() <= 1.001
        shares.add(tuple(labels[:, 2].tolist()))
        assert (len(set(labels[:, 2].tolist())) == 1) == one_share
    assert len(shares) == len(found) == 6
    for one, again in zip(found, batches(dataset, *steps, workers=2, epochs=2), strict=True):
        assert all(a.tobytes() == b.tobytes() for a, b in zip(one, again, strict=True))


def test_its_labels_become_weights_of_classes(dataset, interpreted):
    label = [BlendLabels(0.4, one_share=False), ToTensor()]
    for (_, mixed, ids), (_, weights, _) in zip(
        batches(dataset, label=label), batches(dataset, label=[*label, Spread(10)]), strict=True
    ):
        assert np.allclose(weights.sum(axis=1), 1)
        apart = ids % 10 != np.roll(ids, 1) % 10
        assert np.array_equal(weights[apart, (ids % 10)[apart]], mixed[apart, 2])


def changed(dataset, operation, epochs=1):
    """(epochs * samples,): the sample whose image each row has, -1 for none, and its own id."""
    found = batches(dataset, [operation], [ToTensor()], epochs=epochs)
    again = batches(dataset, [operation], [ToTensor()], epochs=epochs, workers=2)
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(found, again, strict=True))
    known = {image.tobytes(): n for n, image in enumerate(IMAGES)}
    return [[known.get(image.tobytes(), -1) for image in images] for images, _, _ in found], [
        ids.tolist() for _, _, ids in found
    ]


def test_mixing_that_a_draw_decides_is_found(dataset, interpreted):
    shown, ids = changed(dataset, batch_ops.Seldom(), epochs=8)
    others = 0
    for rows, own in zip(shown, ids, strict=True):
        following = [*own[1:], own[0]]
        assert all(
            row in pair for row, pair in zip(rows, zip(own, following, strict=True), strict=True)
        )
        others += sum(row != mine for row, mine in zip(rows, own, strict=True))
    assert 1 <= others <= 30


def test_halves_and_reversed_batches(dataset, interpreted):
    shown, ids = changed(dataset, batch_ops.Swapped())
    assert shown == [[*own[BATCH // 2 :], *own[: BATCH // 2]] for own in ids]
    shown, ids = changed(dataset, batch_ops.Turned())
    assert shown == [own[::-1] for own in ids]


@pytest.mark.parametrize("how", ["by_array", "by_array_in_a_loop", "by_key", "by_torch"])
def test_an_order_made_of_draws_is_mixing(dataset, interpreted, how):
    shown, ids = changed(dataset, batch_ops.Reordered(how))
    assert [sorted(rows) for rows in shown] == [sorted(own) for own in ids]
    assert all(rows != own for rows, own in zip(shown, ids, strict=True))


def test_a_permutation_of_the_batch_and_a_value_that_is_carried_on(dataset, interpreted):
    for images, _, ids in batches(dataset, [batch_ops.Pasted()], [ToTensor()]):
        same = (images == IMAGES[ids]).all(axis=3).mean(axis=(1, 2))
        assert (same[same < 1] >= 0.75).all()
        assert (same < 1).sum() >= 2
    for images, _, ids in batches(dataset, [batch_ops.Carried()], [ToTensor()]):
        assert images[:, 0, 0, 0].tolist() == [0, *IMAGES[ids[:-1], 0, 0, 1].tolist()]


def test_a_read_of_another_row_that_no_trial_reaches_may_be_declared(dataset, interpreted):
    for operation in (batch_ops.NeverDenied(), batch_ops.NeverDeclared()):
        for images, _, ids in batches(dataset, [operation], [ToTensor()]):
            assert np.array_equal(images, IMAGES[ids])


def test_rows_that_stand_alone_stay_alone(dataset, interpreted):
    """Otherwise their single numbers would come from the first row of the batch."""
    noisy = map(batch_ops.Noisy, ("by_array", "by_values", "by_rejection", "by_torch"))
    for operation in (batch_ops.OwnRows(), batch_ops.Leveled(), batch_ops.Centered(), *noisy):
        one = batches(dataset, [operation], [ToTensor()], order=OrderOption.SEQUENTIAL)
        other = batches(dataset, [operation], [ToTensor()], order=OrderOption.RANDOM)
        rows = {
            int(n): image for images, _, ids in one for n, image in zip(ids, images, strict=True)
        }
        for images, _, ids in other:
            assert all(
                np.array_equal(rows[int(n)], image) for n, image in zip(ids, images, strict=True)
            )


def test_the_draws_of_the_trial_reach_from_end_to_end():
    drawn = sorted(uniform(make_key(0, 0, point, 0), 0) for point in POINTS)
    assert drawn[0] < 1e-5
    assert drawn[-1] > 1 - 1e-4
    assert max(np.diff(drawn)) <= 0.26


@pytest.mark.parametrize(
    ("body", "other", "certain"),
    [
        ("for i in range(n): dst[i] = x[i]", "", True),
        ("for i in range(n): x[i] += 1", "", True),
        ("for i in range(n): dst[i] = x[i - 1]", "x[i - 1]", False),
        ("for i in range(n): dst[i - 1] = x[i]", "x[i]", False),
        ("for i in range(n): dst[(i + 1) % n] = x[(i + 1) % n]", "", True),
        ("for i in range(n): dst[i] = x[order[i], 2:]", "x[order[i], 2:]", False),
        ("for i in range(n):\n  j = n - 1 - i\n  dst[i] = x[j]", "x[j]", False),
        ("for i in range(n): dst[i] = x[i - 1].shape[0]", "", True),
        ("a, b = dst\nfor i in range(n): a[i], b[i] = x[i], a[i - 1]", "a[i - 1]", False),
        ("y = x\nfor i in range(n): dst[i] = y[n - i]", "y[n - i]", False),
        ("return np.stack([x[i - 1] for i in range(n)])", "x[i - 1]", False),
        ("for i in range(n): dst[i] = x[0]", "", False),
        ("dst[:] = x", "", False),
        ("dst[:] = x.mean()", "", False),
        (f"{MEANS}\nfor i in range(n): dst[i] = x[i] - m[i]", "", False),
        (f"{MEANS}\nfor i in range(n): dst[i] = x[i] - m[i - 1]", "x[k]", False),
        (f"{MEANS}\nfor i in range(n): dst[i] = x[i] - m.max()", "x[k]", False),
        (f"{MEANS}\nfor i in range(n):\n  for j in range(n): dst[i] = m[j]", "x[k]", False),
        (f"{MEANS}\nfor i in range(n): dst[i] = x[k] - m[i]", "x[k]", False),
        (f"{MEANS}\ndst[k + 1] = 1\nfor i in range(n): dst[i] = m[i]", "x[k]", False),
        (f"{MEANS}\n  if x[k] > 2: v = x[k]\nfor i in range(n): dst[i] = v", "x[k]", False),
        (f"{MEANS}\n  found.append(x[k])\nfor i in range(n): dst[i] = m[i]", "x[k]", False),
        (f"{MEANS}\n  np.add(x[k], 1, out=v)\nfor i in range(n): dst[i] = v", "x[k]", False),
        (f"{MEANS}\n  m[0] = x[k]\nfor i in range(n): dst[i] = m[i]", "x[k]", False),
        (f"{MEANS}\n  k = 0\nfor i in range(n): dst[i] = m[i]", "x[k]", False),
        (f"{MEANS}\n  o.v = x[k]\nfor i in range(n): dst[i] = m[i]", "x[k]", False),
        (f"{MEANS}\nw = m\nfor i in range(n): dst[i] = w[i - 1]", "x[k]", False),
        (f"w = {MEANS}\nfor i in range(n): dst[i] = w[i - 1]", "x[k]", False),
        (f"{MEANS}\nm = w\nfor i in range(n): dst[i] = m[i]", "x[k]", False),
        ("for i in range(n):\n  for k in range(n): m[k] = x[k]\n  dst[i] = m[i]", "x[k]", False),
        ("k = 0\nwhile k < n:\n  dst[k] = x[k + 1]\n  k += 1", "x[k + 1]", False),
    ],
)
def test_what_the_source_says_about_rows(body, other, certain):
    lines = textwrap.indent(f"n = len(x)\n{body}\nreturn dst", "    ")
    (tree,) = ast.parse(f"def f(x, dst):\n{lines}").body
    found = row_reads(tree, 10)
    assert (found.other, found.is_certain) == (other, certain)
    assert bool(found.line) == bool(other)
