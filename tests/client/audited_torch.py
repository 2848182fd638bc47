"""torch DataLoaders and a Grain dataset for the tests of `stoker audit`, as users write them."""

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset

GENERATOR = np.random.default_rng(0)
ROWS, BATCH = 32, 4


class Noisy(Dataset):
    """An image that is noise around its number, drawn in the worker, and its id."""

    def __init__(self, draw):
        self.draw = draw

    def __len__(self):
        return ROWS

    def __getitem__(self, number):
        return {"image": torch.full((4,), float(number)) + self.draw(), "id": number}


def loader(draw, workers, seed, only):
    data = Noisy(draw)
    if only is not None:
        data = Subset(data, [only] * len(data))
    order = torch.Generator().manual_seed(seed)
    return DataLoader(data, BATCH, shuffle=True, num_workers=workers, generator=order)


def global_generator(workers=0, seed=0, only=None):
    """Each worker has a copy of one generator: the classic mistake."""
    return loader(GENERATOR.random, workers, seed, only)


def worker_seeds(workers=0, seed=0, only=None):
    """Draw from torch's generator, which each worker seeds with its number."""
    torch.manual_seed(seed)
    return loader(lambda: torch.rand(4), workers, seed, only)


def without_set_epoch(rank=0, world_size=1):
    data = Noisy(lambda: 0.0)
    return DataLoader(data, BATCH, sampler=DistributedSampler(data, world_size, rank))


def with_set_epoch(epoch=0, rank=0, world_size=1):
    made = without_set_epoch(rank, world_size)
    made.sampler.set_epoch(epoch)
    return made


def grain_dataset(workers=0, seed=0, epoch=0, rank=0, world_size=1):
    import grain  # noqa: PLC0415 - it need not be installed

    part = slice(rank, None, world_size)
    data = grain.MapDataset.source(range(ROWS)).seed(seed).shuffle().repeat()
    data = data.random_map(lambda number, rng: {"id": number, "draw": rng.random()})
    data = data[epoch * ROWS : (epoch + 1) * ROWS][part].batch(BATCH)
    data = data.to_iter_dataset()
    if workers:
        data = data.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    return data
