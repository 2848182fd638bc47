"""Operations and modules on tensors: they get sample ids, and draw the same in every run."""

import random

import numpy as np
import pytest
import torch
from drawing_ops import Turns

from stoker.compat.ffcv import Loader
from stoker.compat.ffcv.fields.decoders import SimpleRGBImageDecoder
from stoker.compat.ffcv.transforms import ToTensor


class Mutes(torch.nn.Module):
    """Draws from a generator that is not torch's."""

    def __init__(self, source):
        super().__init__()
        self.source = source

    def forward(self, images):
        return images * int(self.source.random() * 100)


def epoch(path, *steps, seed=4):
    image = [SimpleRGBImageDecoder(), ToTensor(), *steps]
    loader = Loader(path, batch_size=10, seed=seed, pipelines={"image": image, "label": None})
    return torch.stack([images for (images,) in loader])


def generators():
    numpys = np.random.get_state()
    return (
        random.getstate(),
        numpys[1].tobytes(),
        numpys[2],
        torch.get_rng_state().numpy().tobytes(),
    )


@pytest.mark.parametrize("source", [np.random, random], ids=["numpy", "python"])
@pytest.mark.parametrize("make", [Turns, Mutes], ids=["operation", "module"])
def test_draws_are_those_of_the_batch_and_leave_the_scripts_generators_alone(packed, make, source):
    found = []
    for start in (1, 2):
        np.random.seed(start)
        random.seed(start)
        torch.manual_seed(start)
        before = generators()
        found.append(epoch(packed, make(source)))
        assert generators() == before
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], epoch(packed, make(source), seed=5))


def test_sample_ids_of_an_operation_on_tensors(packed):
    images = epoch(packed, Turns(ids=True))
    assert images[:, :, 0, 0, 0].reshape(-1).tolist() == list(range(50))


def test_draws_are_found_only_where_they_are(packed):
    """One that draws nothing is called ahead of the script, outside its thread."""
    line = Loader(
        packed,
        10,
        pipelines={"image": [SimpleRGBImageDecoder(), ToTensor(), Turns()], "label": None},
    )._lines[0]
    assert [step.draws for step in line._steps] == [False, False]
