"""FFCV's loader: whole scripts, orders, epochs, fields, and who owns a batch."""

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

from stoker.compat.ffcv import fields as f
from stoker.compat.ffcv.array_pool import ArrayPool
from stoker.compat.ffcv.fields.decoders import (
    CenterCropRGBImageDecoder,
    IntDecoder,
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
)
from stoker.compat.ffcv.loader import Loader, OrderOption
from stoker.compat.ffcv.pipeline import Compiler
from stoker.compat.ffcv.transforms import (
    Convert,
    Cutout,
    NormalizeImage,
    RandomHorizontalFlip,
    RandomTranslate,
    ReplaceLabel,
    Squeeze,
    ToDevice,
    ToTensor,
    ToTorchImage,
    View,
)
from stoker.protocol.errors import BuildError, SampleError
from stoker.rng.draws import uniform
from stoker.rng.streams import make_key, stream_key


def epoch(loader):
    return [tuple(part.clone() for part in batch) for batch in loader]


def labels(loader):
    return [int(n) for batch in loader for n in batch[-1].reshape(-1)]


@pytest.mark.as_a_user
@pytest.mark.slow
def test_the_guides_script_runs_serial_and_parallel(user_folder, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(user_folder / "guide_script.py"), str(tmp_path)],
        capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == 2 * [
        "Method: with | Shape: (16, 16, 16, 3) | Labels: (16, 1)",
        "Method: without | Shape: (16, 32, 32, 3) | Labels: (16, 1)",
    ]


def test_images_and_labels_come_as_they_were_written(packed, pictures):
    loader = Loader(packed, batch_size=20, num_workers=2, drop_last=False)
    batches = epoch(loader)
    assert [len(images) for images, _ in batches] == [20, 20, 10]
    assert len(loader) == 3
    images = torch.cat([images for images, _ in batches])
    assert images.dtype == torch.uint8
    assert [int(i[0, 0, 0]) for i in images] == list(range(50))
    for place in (0, 17, 49):
        assert np.array_equal(images[place], np.asarray(pictures[place][0]))
    assert batches[0][1].dtype == torch.int64
    assert batches[0][1].shape == (20, 1)


@pytest.mark.parametrize("order", list(OrderOption))
def test_orders_are_epochs_of_all_samples(packed, order):
    loader = Loader(packed, batch_size=10, order=order, seed=3, pipelines={"label": None})
    epochs = [[int(i[0, 0, 0]) for b in loader for i in b[0]] for _ in range(2)]
    assert all(sorted(ids) == list(range(50)) for ids in epochs)
    assert (epochs[0] == epochs[1]) == (order is OrderOption.SEQUENTIAL)
    again = Loader(packed, batch_size=10, order=order, seed=3, pipelines={"label": None})
    assert [int(i[0, 0, 0]) for b in again for i in b[0]] == epochs[0]
    again.next_epoch = 1
    assert [int(i[0, 0, 0]) for b in again for i in b[0]] == epochs[1]


def test_a_seed_is_drawn_where_none_is_given(packed):
    loaders = [Loader(packed, batch_size=10, pipelines={"image": None}) for _ in range(2)]
    assert loaders[0].seed != loaders[1].seed


def test_only_the_samples_asked_for(packed):
    chosen = [4, 40, 8, 15]
    loader = Loader(packed, batch_size=2, indices=chosen, pipelines={"image": None})
    assert labels(loader) == [number % 10 for number in chosen]


def test_the_same_bytes_for_any_number_of_workers_compiled_or_not(packed, monkeypatch):
    monkeypatch.setattr("stoker.compat.ffcv.loader.cores", lambda: (3, "said by the test"))
    results = []
    for workers, ahead in ((1, 1), (3, 4)):
        monkeypatch.setattr(Compiler, "_enabled", workers > 1)
        pipeline = [SimpleRGBImageDecoder(), RandomHorizontalFlip(), ToTensor()]
        loader = Loader(
            packed, batch_size=25, num_workers=workers, batches_ahead=ahead, seed=1,
            order=OrderOption.RANDOM, pipelines={"image": pipeline},
        )  # fmt: skip
        results.append([images.numpy().tobytes() for _ in range(2) for images, _ in loader])
    assert results[0] == results[1]
    assert len(set(results[0])) == 4


def test_no_more_threads_than_cores(packed, monkeypatch):
    monkeypatch.setattr("stoker.compat.ffcv.loader.cores", lambda: (3, "said by the test"))
    asked = (-1, 2, 8)
    loaders = [Loader(packed, batch_size=10, num_workers=workers) for workers in asked]
    assert [loader.workers for loader in loaders] == [3, 2, 3]


def test_one_operation_in_two_pipelines_makes_one_decision(two_views, interpreted):
    flip = RandomHorizontalFlip()
    shared = {name: [SimpleRGBImageDecoder(), flip, ToTensor()] for name in ("left", "right")}
    for left, right, _ in Loader(two_views, batch_size=12, pipelines=shared, seed=5):
        assert torch.equal(left, right)
        keys = [make_key(5, stream_key("left/RandomHorizontalFlip"), n, 0) for n in range(12)]
        plain = next(iter(Loader(two_views, batch_size=12)))[0]
        for image, before, key in zip(left, plain, keys, strict=True):
            assert torch.equal(image, before.flip(1) if uniform(key, 0) < 0.5 else before)


def test_transforms_on_arrays_and_tensors(packed, interpreted):
    mean, std = (120.0, 110.0, 100.0), (60.0, 50.0, 40.0)
    image = [
        SimpleRGBImageDecoder(), RandomTranslate(4, (1, 2, 3)), Cutout(8, (9, 9, 9)),
        NormalizeImage(mean, std, np.float16), ToTensor(), ToDevice("cpu"), ToTorchImage(),
    ]  # fmt: skip
    label = [IntDecoder(), ReplaceLabel([0, 7], 99), ToTensor(), Squeeze(), Convert(torch.int32)]
    loader = Loader(packed, batch_size=10, seed=2, pipelines={"image": image, "label": label})
    images, numbers = next(iter(loader))
    assert (images.dtype, images.shape) == (torch.float16, (10, 3, 32, 32))
    assert images.is_contiguous(memory_format=torch.channels_last)
    for channel in range(3):
        cut = np.float16((9 - mean[channel]) / std[channel])
        assert ((images[:, channel] == cut).sum(dim=(1, 2)) >= 64).all()
    assert (numbers.dtype, numbers.tolist()) == (torch.int32, [99, 1, 2, 3, 4, 5, 6, 99, 8, 9])


@pytest.mark.parametrize("channels_last", [True, False])
def test_normalizing_after_to_torch_image_is_the_same(packed, channels_last):
    """The table is that of arrays; here it meets tensors with channels first."""
    normalize = NormalizeImage((120.0, 110.0, 100.0), (60.0, 50.0, 40.0), np.float16)
    images = [SimpleRGBImageDecoder(), ToTensor(), ToTorchImage(channels_last)]
    stored, got = (
        next(iter(Loader(packed, batch_size=10, pipelines={"image": steps, "label": None})))[0]
        for steps in (images, [*images, normalize])
    )
    assert (got.dtype, got.shape) == (torch.float16, (10, 3, 32, 32))
    for channel in range(3):
        expected = normalize.table[stored[:, channel].numpy(), channel]
        assert np.array_equal(got[:, channel].numpy(), expected)


def test_a_view_is_the_same_bytes(packed):
    pipeline = {"image": None, "label": [IntDecoder(), ToTensor(), View(torch.float64)]}
    (numbers,) = next(iter(Loader(packed, batch_size=4, pipelines=pipeline)))
    assert numbers.view(torch.int64).reshape(-1).tolist() == [0, 1, 2, 3]


@pytest.mark.timeout(60)
def test_a_fault_at_the_start_of_an_epoch_reaches_the_script(packed, monkeypatch):
    def refuse(count):
        raise ValueError(f"{count} threads are too many")

    monkeypatch.setattr(Compiler, "set_num_threads", refuse)
    loader = Loader(packed, batch_size=4, num_workers=1, pipelines={"image": None, "label": None})
    with pytest.raises(ValueError, match="1 threads are too many"):
        next(iter(loader))


class Noise(torch.nn.Module):
    def forward(self, images):
        return images + torch.rand(len(images), 1, 1, 1)


def test_modules_that_draw_are_seeded_by_batch_on_the_scripts_thread(packed):
    def pipeline():
        image = [SimpleRGBImageDecoder(), ToTensor(), ToTorchImage(), Noise()]
        return Loader(packed, batch_size=25, seed=4, pipelines={"image": image, "label": None})

    torch.manual_seed(0)
    expected_next = torch.rand(1, generator=torch.Generator().manual_seed(0))
    first = epoch(pipeline())
    assert torch.equal(torch.rand(1), expected_next)
    second = epoch(pipeline())
    assert all(torch.equal(a, b) for (a,), (b,) in zip(first, second, strict=True))
    assert first[0][0].shape == (25, 3, 32, 32)
    assert not torch.equal(first[0][0] - first[0][0].floor(), first[1][0] - first[1][0].floor())


class Leaves(torch.nn.Module):
    def __init__(self, at_once):
        super().__init__()
        self.at_once = at_once

    def forward(self, images):
        if self.at_once or images.any():
            sys.exit(5)
        return images


def test_a_module_that_ends_the_program_is_an_error(packed):
    def loader(at_once):
        image = [SimpleRGBImageDecoder(), ToTensor(), ToTorchImage(), Leaves(at_once)]
        return Loader(packed, batch_size=25, pipelines={"image": image, "label": None})

    told = r"of field 'image' raised SystemExit: 5 \(.*test_ffcv_loader.py:\d+\) when it was tried"
    with pytest.raises(BuildError, match=told):
        loader(at_once=True)
    told = (
        r"ModuleWrapper of field 'image' raised SystemExit: 5 "
        r"\(.*test_ffcv_loader.py:\d+\), on samples 0, 1,"
    )
    with pytest.raises(SampleError, match=told):
        next(iter(loader(at_once=False)))


def test_jpegs_of_many_sizes(pictures, write):
    class Sizes:
        def __len__(self):
            return 6

        def __getitem__(self, index):
            image = pictures[index][0].resize((40 + 9 * index, 90 - 7 * index))
            return image, index

    fields = {
        "image": f.RGBImageField(write_mode="smart", smart_threshold=9000, max_resolution=64),
        "label": f.IntField(),
    }
    path = write(fields, Sizes())
    for decoder in (
        CenterCropRGBImageDecoder((24, 24), ratio=0.875),
        RandomResizedCropRGBImageDecoder((24, 20)),
    ):
        images, _ = next(iter(Loader(path, 6, pipelines={"image": [decoder, ToTensor()]}, seed=1)))
        assert images.shape == (6, *decoder.output_size, 3)
        assert images.float().std() > 20
    with pytest.raises(
        BuildError, match="expected images of one size, but those of 'image' differ"
    ):
        Loader(path, 6, pipelines={"image": [SimpleRGBImageDecoder(), ToTensor()]})


def test_every_field_comes_back(write):
    arrays = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    samples = [
        (i, i / 8, arrays[i], torch.arange(3) + i, b"x" * i, {"n": i, "s": "é"}) for i in range(4)
    ]
    fields = {
        "whole": f.IntField(),
        "part": f.FloatField(),
        "array": f.NDArrayField(np.dtype("float32"), (2, 3)),
        "tensor": f.TorchTensorField(torch.int64, (3,)),
        "blob": f.BytesField(),
        "json": f.JSONField(),
    }
    whole, part, array, tensor, blob, text = next(iter(Loader(write(fields, samples), 4)))
    assert whole.reshape(-1).tolist() == [0, 1, 2, 3]
    assert part.reshape(-1).tolist() == [0, 1 / 8, 2 / 8, 3 / 8]
    assert np.array_equal(array, arrays)
    assert torch.equal(tensor, torch.stack([s[3] for s in samples]))
    assert blob.tolist() == [[120] * i + [0] * (3 - i) for i in range(4)]
    assert f.JSONField.unpack(text) == [s[5] for s in samples]


def test_a_batch_that_is_kept_is_never_overwritten(packed):
    loader = Loader(packed, batch_size=5, seed=1, batches_ahead=2)
    kept, copies = [], []
    for _ in range(3):
        for images, _ in loader:
            kept.append(images[1:3])
            copies.append(images[1:3].clone())
    assert all(torch.equal(a, b) for a, b in zip(kept, copies, strict=True))


def test_memory_comes_back_when_the_last_view_is_gone():
    pool = ArrayPool()
    first = pool.take((4, 5), "float32")
    place, view = first.ctypes.data, torch.from_numpy(first)[1:]
    del first
    gc.collect()
    assert pool.take((4, 5), "float32").ctypes.data != place
    del view
    gc.collect()
    places = {pool.take((20,), "int32").ctypes.data for _ in range(3)}
    assert place in places or len(places) == 1


def test_leaving_an_epoch_early_leaves_no_thread(packed):
    before = threading.active_count()
    loader = Loader(packed, batch_size=2, num_workers=2, pipelines={"image": None})
    for _ in range(3):
        iterator = iter(loader)
        next(iterator)
        iterator.close()
    assert threading.active_count() == before
    assert len(epoch(loader)) == 25
