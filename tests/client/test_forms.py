"""Rows of differing shape, from a daemon that is written out here: what a loader hands out."""

import msgspec
import numpy as np
import pytest
import torch

from stoker.client import Loader
from stoker.client.device import AheadSource, Target
from stoker.protocol.errors import ProtocolError
from stoker.protocol.output_forms import RaggedArray
from stoker.protocol.slot_layout import Output

ROWS = 3
SIZES = {
    "image": [[20, 40], [8, 16], [0, 0]],
    "tokens": [[3], [0], [9]],
    "crops": [[2, 3], [4, 4], [1, 1]],
}
TOLD = (20, 40, 3)


def sized(name: str, dtype: str, shape: tuple[int, ...], form: str, varies: tuple[int, ...]):
    rows = Output(name, dtype, shape, "array", (), form, varies)
    return rows, Output(f"{name}.size", "int64", (len(varies),), "size")


OUTPUTS = (
    *sized("image", "uint8", (32, 48, 3), "pad", (0, 1)),
    *sized("tokens", "int32", (9,), "ragged", (0,)),
    *sized("crops", "float32", (4, 4), "list", (0, 1)),
)


@pytest.fixture
def served(make_daemon):
    """A daemon whose batches hold SIZES; `told` is the shape that it announces of images."""
    daemon = make_daemon(steps=2, rows=ROWS)
    daemon.outputs, daemon.told, made = OUTPUTS, TOLD, daemon.batch

    def batch(epoch: int, step: int) -> dict[str, np.ndarray]:
        arrays = made(epoch, step)
        return arrays | {f"{name}.size": np.array(sizes) for name, sizes in SIZES.items()}

    def alter(ready):
        first = msgspec.structs.replace(ready.outputs[0], shape=(ROWS, *daemon.told))
        return [msgspec.structs.replace(ready, outputs=[first, *ready.outputs[1:]])]

    daemon.batch, daemon.alter_ready = batch, alter
    return daemon


def expected(daemon, name: str, step: int) -> list[np.ndarray]:
    """The rows of a ragged output or a list, by hand."""
    array = daemon.batch(0, step)[name]
    return [
        array[row].reshape(-1)[: int(np.prod(size))].reshape(size)
        for row, size in enumerate(SIZES[name])
    ]


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_every_form(served, device: str) -> None:
    with Loader(served.address, pipeline="p", batch_size=ROWS, device=device) as loader:
        for step, batch in enumerate(loader):
            whole = served.batch(0, step)["image"].reshape(-1)[: ROWS * 2400]
            assert np.array_equal(np.asarray(batch.image), whole.reshape(ROWS, *TOLD))
            assert batch["image.size"].tolist() == SIZES["image"]
            real = np.asarray(batch.real("image"))
            assert [int(row.sum()) for row in real] == [800, 128, 0]
            assert real[1, :8, :16].all()
            assert isinstance(batch.tokens, RaggedArray)
            assert all(map(np.array_equal, batch.tokens, expected(served, "tokens", step)))
            assert batch.tokens.offsets.tolist() == [0, 3, 3, 12]
            assert isinstance(batch.crops, list)
            assert all(map(np.array_equal, batch.crops, expected(served, "crops", step)))
            assert "crops.size" not in batch
            wanted = torch.Tensor if device == "cpu" else np.ndarray
            assert {type(part) for part in (batch.image, batch.tokens.values, *batch.crops)} == {
                wanted
            }
            assert repr(batch) == (
                f"Batch(epoch 0, step {step}; image: (3, 20, 40, 3) uint8, image.size: (3, 2) "
                "int64, tokens: RaggedArray(3 rows, values (12,) int32), crops: list of 3 float32, "
                "index: (3,) int64, requested: (3,) int64, valid: (3,) bool)"
            )


def test_moving_a_batch(served) -> None:
    with Loader(served.address, pipeline="p", batch_size=ROWS) as loader:
        batch = next(iter(loader))
        there = batch.to("cpu", non_blocking=True)
        assert [crop.shape for crop in there.crops] == [(2, 3), (4, 4), (1, 1)]
        assert torch.equal(there.tokens[2], batch.tokens[2])
        jagged = torch.nested.nested_tensor_from_jagged(batch.tokens.values, batch.tokens.offsets)
        assert [len(row) for row in jagged.unbind()] == [3, 0, 9]
        with pytest.raises(KeyError):
            batch.real("tokens")


@pytest.mark.parametrize("told", [(33, 40, 3), (20, 40, 2), (20, 40), (0, 40, 3)])
def test_shapes_that_cannot_be(served, told: tuple[int, ...]) -> None:
    served.told = told
    with (
        Loader(served.address, pipeline="p", batch_size=ROWS) as loader,
        pytest.raises(ProtocolError, match=r"the sides \(0, 1\) may be shorter, got uint8 \(.*\)"),
    ):
        next(iter(loader))


class Accelerator:
    """Copies at once, into memory of its own."""

    def copy(self, arrays):
        return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}, None

    def hand_over(self, tensors, event) -> None:
        assert all(isinstance(tensor, torch.Tensor) for tensor in tensors.values())

    def mark(self) -> None:
        pass

    def passed(self, event) -> bool:
        return True

    def wait(self, event) -> None:
        pass

    def close(self) -> None:
        pass


def test_every_form_on_a_device(served, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the code that copies ahead; of a list only what is real is copied."""

    def source(self, delivery, *_):
        return AheadSource(delivery, Accelerator())

    monkeypatch.setattr(Target, "source", source)
    with Loader(served.address, pipeline="p", batch_size=ROWS) as loader:
        for step, batch in enumerate(loader):
            assert batch.image.shape == (ROWS, *TOLD)
            assert batch.real("image").sum() == 928
            assert all(map(np.array_equal, batch.tokens, expected(served, "tokens", step)))
            assert all(map(np.array_equal, batch.crops, expected(served, "crops", step)))
            assert [crop.untyped_storage().nbytes() for crop in batch.crops] == [24, 64, 4]
