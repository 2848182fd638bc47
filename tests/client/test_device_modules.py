"""Modules of torch that run on batches after the transfer, and Normalize against ops.normalize."""

import shutil

import numpy as np
import pytest
import torch
from daemons import serving

from stoker.client import Loader, loop_pace
from stoker.client.torch import Normalize
from stoker.dataset import schema, write
from stoker.protocol.errors import UsageError

ROWS, SIDES = 14, (12, 10)
MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
NORMAL = [("float32", "HWC"), ("float32", "CHW"), ("float16", "CHW")]

PIPELINES = """
from stoker import ops
from stoker.pipeline import outputs, pipeline

@pipeline
def levels(sample):
    return {"label": sample.label, "image": sample.image, "mask": sample.mask}

@pipeline
def two(sample):
    return {"image": sample.image, "flipped": ops.horizontal_flip(sample.image, p=1.0)}

@pipeline
def padded(sample):
    return {"image": outputs.pad(sample.image)}
""" + "".join(
    f"""
@pipeline
def normal_{dtype}_{layout}(sample):
    return {{"image": ops.normalize(sample.image, mean={MEAN}, std={STD}, dtype="{dtype}",
                                    layout="{layout}")}}
"""
    for dtype, layout in NORMAL
)


@pytest.fixture(scope="module")
def load(session_folder):
    """load(pipeline, **options) -> a Loader of 14 images in 4 batches; all share one daemon."""
    folder = session_folder / "modules"
    folder.mkdir()
    (folder / "module_pipelines.py").write_text(PIPELINES)
    fields = [schema.image(encoding="raw"), schema.mask(encoding="raw"), schema.label()]
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (ROWS, *SIDES, 3), np.uint8)
    rows = [{"image": i, "mask": i[..., 0], "label": n} for n, i in enumerate(images)]
    write(folder / "packed", fields, rows)
    names = ["levels", "two", "padded", *(f"normal_{d}_{layout}" for d, layout in NORMAL)]
    flags = [f"--pipeline={name}=module_pipelines:{name}" for name in names]
    with serving(
        folder, f"--dataset=images={folder}/packed", *flags, f"--python-path={folder}",
        "--workers=1",
    ) as daemon:  # fmt: skip

        def make(pipeline="levels", **options):
            given = {"batch_size": 4, "last": "short"} | options
            return Loader(daemon.address, pipeline=pipeline, **given)

        yield make
    shutil.rmtree(folder)


class Spends(torch.nn.Module):
    """Takes a thousand seconds of a clock that nothing else moves."""

    now = 0.0

    def perf_counter(self):
        return self.now

    def forward(self, values):
        self.now += 1000.0
        return values


def test_the_verdict_names_the_modules_if_they_take_the_time_of_the_loop(load, monkeypatch):
    clock = Spends()
    monkeypatch.setattr(loop_pace, "time", clock)
    with load(on_device=[clock]) as loader:
        batches = list(loader)
        assert str(loader.verdict()) == (
            f"data-bound: 100 % of the loop waited ({len(batches) - 1} batches). Batches had"
            " arrived: 1000000.0 ms a batch went into the modules of on_device. Let the workers do"
            " it, by ops of the pipeline"
        )


class Plus(torch.nn.Module):
    def __init__(self, number, at=None):
        super().__init__()
        self.number, self.at, self.calls = number, at, 0

    def forward(self, images):
        self.calls += 1
        if self.calls - 1 == self.at:
            raise FloatingPointError("no such number")
        return images.float() * 2 + self.number


class Noise(torch.nn.Module):
    def forward(self, images):
        return images + torch.rand(images.shape)


# ------------------------------------------------------------------ Normalize


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "layout"), NORMAL)
def test_normalize_gives_the_bits_of_the_op(load, dtype: str, layout: str) -> None:
    module = Normalize(MEAN, STD, layout=layout, dtype=getattr(torch, dtype))
    with load(f"normal_{dtype}_{layout}") as there, load(on_device=[module]) as here:
        assert here.spec.pipeline != there.spec.pipeline, "the pipeline gives levels"
        for wanted, found in zip(there, here, strict=True):
            assert found.image.dtype == wanted.image.dtype
            assert found.image.is_contiguous()
            bits = torch.int32 if dtype == "float32" else torch.int16
            assert torch.equal(found.image.view(bits), wanted.image.view(bits))
            assert found.index.tolist() == wanted.index.tolist()


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32"])
def test_normalize_of_each_dtype(dtype: str) -> None:
    """NumPy, with the arithmetic that docs/contracts/numeric.md states."""
    rng = np.random.default_rng(1)
    images = (rng.random((2, 5, 6, 3)) * 200).astype(dtype)
    most = {"uint8": 255.0, "uint16": 65535.0}.get(dtype, 1.0)
    mean = (most * np.array(MEAN)).astype(np.float32)
    gain = (1 / (most * np.array(STD))).astype(np.float32)
    wanted = (images.astype(np.float32) - mean) * gain
    given = torch.from_numpy(images)
    np.testing.assert_array_equal(Normalize(MEAN, STD)(given).numpy(), wanted)
    assert np.array_equal(given.numpy(), images), "the batch in the slot is not changed"
    planes = Normalize(MEAN, STD, layout="CHW", memory_format=torch.channels_last)(given)
    np.testing.assert_array_equal(planes.numpy(), wanted.transpose(0, 3, 1, 2))
    assert planes.is_contiguous(memory_format=torch.channels_last)
    half = Normalize(MEAN, STD, dtype=torch.bfloat16)(given)
    assert torch.equal(half, torch.from_numpy(wanted).to(torch.bfloat16))


@pytest.mark.parametrize(
    ("arguments", "shape", "message"),
    [
        ({"layout": "NCHW"}, None, "layout='NCHW': expected 'HWC' or 'CHW'"),
        ({"dtype": "float32"}, None, "dtype='float32': expected torch.float32, torch.float16"),
        ({"dtype": torch.uint8}, None, "dtype=torch.uint8: expected torch.float32"),
        ({"memory_format": torch.channels_last}, None, "channels_last is for layout='CHW'"),
        ({"memory_format": torch.preserve_format}, None, "expected torch.contiguous_format or"),
        ({"mean": "0.5"}, None, "mean='0.5': expected a number, or one for each"),
        ({"mean": (0.5, float("nan"))}, None, "mean=.*nan.*: expected a number"),
        ({"std": 0.0}, None, r"std=0.0: expected numbers above 0"),
        ({"mean": (123.7, 116.3, 103.5)}, (1, 4, 4, 3), "on the scale of levels, .* by 255"),
        ({}, (1, 4, 4, 1), r"expected mean to be one number, or one for each of the 1 channels"),
        (
            {},
            (1, 3, 8, 32),
            r"expected images \(rows, height, width, channels\).*ops.layout in the",
        ),
        ({}, (4, 8, 8), r"name the output that has the images"),
    ],
)
def test_what_normalize_refuses(arguments, shape, message) -> None:
    with pytest.raises(UsageError, match=message):
        Normalize(**arguments)(torch.zeros(shape, dtype=torch.uint8))


# ------------------------------------------------------------------ on_device


def test_modules_run_in_order_and_other_outputs_stay(load) -> None:
    modules = {"image": [Plus(1), Plus(3)], "mask": Plus(0)}
    with load() as plain, load(on_device=modules, as_tuple=("image", "mask", "label")) as changed:
        assert changed.spec.stream_id == plain.spec.stream_id
        for batch, (image, mask, label) in zip(plain, changed, strict=True):
            assert torch.equal(image, (batch.image.float() * 2 + 1) * 2 + 3)
            assert torch.equal(mask, batch.mask.float() * 2)
            assert torch.equal(label, batch.label)


def test_modules_have_no_gradients(load) -> None:
    layer = torch.nn.Linear(3, 2)
    with load(on_device=[Plus(0), layer]) as loader:
        image = next(iter(loader)).image
        assert image.shape == (4, *SIDES, 2)
        assert not image.requires_grad
        assert layer.weight.requires_grad


def test_no_modules_are_none(load) -> None:
    with load(on_device=[]) as loader:
        assert next(iter(loader)).image.dtype == torch.uint8


def drawn(loader) -> list[torch.Tensor]:
    return [batch.image for batch in loader]


def test_draws_of_modules_belong_to_the_batch(load) -> None:
    """They are the same for any prefetching and after a resume; the training's own stay."""
    with load(on_device=[Noise()], prefetch=4) as loader:
        torch.manual_seed(5)
        before = torch.get_rng_state()
        first = drawn(loader)
        assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(9)
    with load(on_device=[Noise()], prefetch=1) as loader:
        batches = iter(loader)
        assert torch.equal(next(batches).image, first[0])
        cursor = loader.state_dict()
    with load(on_device=[Noise()]) as loader:
        loader.load_state_dict(cursor)
        rest = drawn(loader)
        assert all(map(torch.equal, rest, first[1:]))
        later = drawn(loader)
    noises = [image % 1 for image in (*first[:3], *later[:3])]
    assert not any(torch.equal(a, b) for n, a in enumerate(noises) for b in noises[:n])


def test_ranks_draw_for_themselves(load) -> None:
    options = {"on_device": [Noise()], "batch_size": 2, "world_size": 2, "last": "drop"}
    with load(rank=0, **options) as zero, load(rank=1, **options) as one:
        noises = [next(iter(loader)).image % 1 for loader in (zero, one)]
        assert not torch.equal(*noises)


def test_an_error_of_a_module_names_it_and_loses_no_batch(load) -> None:
    with load() as plain, load(on_device=[Plus(0), Plus(1, at=1)]) as loader:
        batches, wanted = iter(loader), [batch.index.tolist() for batch in plain]
        assert next(batches).index.tolist() == wanted[0]
        note = r"on_device: module 1 \(Plus\) of output 'image' raised this. It got torch.float32"
        with pytest.raises(FloatingPointError, match=r"no such number") as caught:
            next(batches)
        assert note.replace("\\", "") in caught.value.__notes__[0]
        assert [batch.index.tolist() for batch in batches] == wanted[1:]


class Returns(torch.nn.Module):
    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, images):
        return self.make(images)


@pytest.mark.parametrize(
    ("make", "came"),
    [
        (lambda images: images[:1], r"it returned a tensor \(1, 12, 10, 3\)"),
        (lambda images: images.float().mean(), r"it returned a tensor \(\)"),
        (lambda images: None, "it returned NoneType"),
    ],
)
def test_a_module_returns_as_many_rows(load, make, came) -> None:
    message = rf"module 0 \(Returns\) of output 'image': expected a tensor of 4 rows, .*{came}"
    with load(on_device=[Returns(make)]) as loader, pytest.raises(UsageError, match=message):
        next(iter(loader))


@pytest.mark.parametrize(
    ("pipeline", "given", "message"),
    [
        ("levels", torch.nn.ReLU(), r"on_device=ReLU\(\): expected a list of torch.nn.Module"),
        ("levels", [torch.nn.ReLU], r"on_device\[0\]=.*got type; .* not a class"),
        ("levels", [torch.relu], r"on_device\[0\]=.*put a function into the forward\(\)"),
        ("levels", {"image": [3]}, r"on_device\['image'\]\[0\]=3: expected an object of torch"),
        ("levels", "relu", "on_device='relu': expected a list"),
        ("levels", {"photo": Plus(1)}, r"on_device\['photo'\]: the batches have no such output; .*"
         "label, image, mask"),
        ("two", [Plus(1)], r"several images: image, flipped. Name the output: on_device={'image'"),
        ("padded", [Plus(1)], "the batches have no image of one size"),
        ("padded", {"image": Plus(1)}, r"on_device\['image'\]: its rows differ in shape"),
    ],
)  # fmt: skip
def test_modules_that_cannot_be(load, pipeline, given, message) -> None:
    with pytest.raises(UsageError, match=message):
        load(pipeline, on_device=given)


def test_arrays_have_no_modules(load) -> None:
    with pytest.raises(UsageError, match="device='numpy' gives arrays: use device='cpu'"):
        load(device="numpy", on_device=[Plus(1)])
