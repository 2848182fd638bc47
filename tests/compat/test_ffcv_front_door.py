"""Promises of guarantees.md about FFCV's operations, through its Loader, as a script uses it."""

import random

import numba
import numpy as np
import pytest
import torch
from ffcv_ops import LeavesLater, Shift, Threads

from stoker.compat.ffcv import Loader, OrderOption
from stoker.compat.ffcv.fields import IntField, RGBImageField
from stoker.compat.ffcv.fields.decoders import IntDecoder, SimpleRGBImageDecoder
from stoker.compat.ffcv.transforms import ToTensor
from stoker.protocol.errors import SampleError

pytestmark = pytest.mark.as_a_user
ROWS = 14


@pytest.fixture(scope="module")
def dataset(write):
    """Noise with numbers; the image of sample 7 begins with 77, 78."""
    images = np.random.default_rng(0).integers(0, 76, (ROWS, 6, 8, 3)).astype(np.uint8)
    images[7, 0, 0, :2] = 77, 78
    fields = {"image": RGBImageField(), "label": IntField()}
    return write(fields, [(image, number) for number, image in enumerate(images)])


def load(dataset, batch, image, label=None, **more):
    lines = {
        "image": [SimpleRGBImageDecoder(), image, ToTensor()] if image else None,
        "label": [IntDecoder(), *([label] if label else []), ToTensor()],
    }
    return Loader(dataset, batch, seed=3, pipelines=lines, **more)


def test_a_row_is_the_same_among_any_others_and_no_global_state_is_touched(dataset, interpreted):
    found = []
    for number, batch in enumerate((7, 2)):
        np.random.seed(number)
        random.seed(number)
        torch.manual_seed(number)
        before = np.random.get_state()[1].tobytes(), random.getstate(), torch.get_rng_state()
        rows = {}
        for images, labels in load(dataset, batch, Shift(), order=OrderOption.RANDOM):
            pairs = zip(labels.flatten().tolist(), images.numpy(), strict=True)
            rows |= {number: image.tobytes() for number, image in pairs}
        found.append(rows)
        assert (np.random.get_state()[1].tobytes(), random.getstate()) == before[:2]
        assert torch.equal(torch.get_rng_state(), before[2])
    assert found[0] == found[1]
    assert len(found[0]) == ROWS


@pytest.mark.slow
@pytest.mark.skipif(numba.get_num_threads() < 2, reason="one core")
def test_a_loop_over_prange_runs_on_more_than_one_core(dataset):
    for (threads,) in load(dataset, 7, None, Threads(7)):
        assert 2 <= int(threads.min()) == int(threads.max()) <= min(numba.get_num_threads(), 7)


def test_an_operation_that_ends_the_program_on_real_data_is_an_error_with_its_line(
    dataset, interpreted
):
    with pytest.raises(
        SampleError, match=r"raised SystemExit: 4 \(.*ffcv_ops.py:\d+\), on samples 7, "
    ):
        list(load(dataset, 7, LeavesLater(SystemExit)))
