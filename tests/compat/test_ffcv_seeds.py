"""Seeds in operations: new in each epoch and alike in all pipelines, or the sample's own.

The numbers go through a loader over 4 epochs, in two pipelines, for several numbers of workers.
"""

import numpy as np
import pytest
from seeded_ops import OWN, SHARED, Seeded

from stoker.compat.ffcv import Loader, OrderOption
from stoker.compat.ffcv.fields import IntField
from stoker.compat.ffcv.fields.decoders import IntDecoder
from stoker.compat.ffcv.pipeline import Compiler
from stoker.compat.ffcv.transforms import ToTensor

SAMPLES, EPOCHS = 64, 4


@pytest.fixture(scope="module")
def numbered(write):
    """The id of each sample, three times."""
    fields = {name: IntField() for name in ("image", "mask", "id")}
    return write(fields, [(n, n, n) for n in range(SAMPLES)])


def numbers(path, one, other=None, *, batch=16, workers=1, seed=3, epochs=EPOCHS):
    """(epochs, 2, samples): the numbers of both pipelines, by sample id."""
    lines = {
        "image": [IntDecoder(), one, ToTensor()],
        "mask": [IntDecoder(), other or one, ToTensor()],
    }
    loader = Loader(
        path, batch, num_workers=workers, order=OrderOption.RANDOM, seed=seed, pipelines=lines
    )
    found = np.zeros((epochs, 2, SAMPLES), np.int64)
    for epoch in range(epochs):
        for image, mask, number in loader:
            found[epoch, 0, number[:, 0]] = image[:, 0]
            found[epoch, 1, number[:, 0]] = mask[:, 0]
    return found


def changed(found):
    """Number of samples that do not have the same number in all epochs."""
    return sum(len(set(found[:, 0, sample])) > 1 for sample in range(SAMPLES))


@pytest.mark.as_a_user
@pytest.mark.parametrize("how", [function.__name__ for function in SHARED])
def test_a_seed_of_no_row_is_alike_in_two_pipelines_and_new_in_each_epoch(
    numbered, interpreted, how
):
    found = numbers(numbered, Seeded(how), Seeded(how))
    assert np.array_equal(found[:, 0], found[:, 1])
    assert changed(found) == SAMPLES
    assert all(len(set(epoch)) == SAMPLES for epoch in found[:, 0])
    again = numbers(numbered, Seeded(how), Seeded(how), batch=8, workers=2)
    assert np.array_equal(found, again)
    assert not np.array_equal(found, numbers(numbered, Seeded(how), Seeded(how), seed=4))


@pytest.mark.parametrize("how", [function.__name__ for function in OWN])
def test_a_seed_of_the_row_is_the_samples_own_in_all_epochs(numbered, interpreted, how):
    found = numbers(numbered, Seeded(how), Seeded("own"))
    assert changed(found) == 0
    assert len(set(found[0, 0])) == SAMPLES
    assert np.array_equal(found[:, 0], found[:, 1])
    assert np.array_equal(found, numbers(numbered, Seeded(how), batch=32, workers=2, seed=9))


def test_other_numbers_are_other_seeds(numbered, interpreted):
    one, other = Seeded("closed_over", 7), Seeded("closed_over", 8)
    found = numbers(numbered, one, other, epochs=1)
    assert (found[0, 0] != found[0, 1]).all()
    assert np.array_equal(
        numbers(numbered, Seeded("constant"), Seeded("closed_over", 42), epochs=1)[0, 1],
        numbers(numbered, Seeded("constant"), epochs=1)[0, 0],
    )


@pytest.mark.slow
@pytest.mark.parametrize("how", ["helper", "own_helper"])
def test_machine_code_draws_the_same(numbered, monkeypatch, how):
    found = []
    for machine in (True, False):
        monkeypatch.setattr(Compiler, "_enabled", machine)
        found.append(numbers(numbered, Seeded(how), Seeded(how), workers=1 + machine, epochs=2))
    assert np.array_equal(*found)
