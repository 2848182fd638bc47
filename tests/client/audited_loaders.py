"""Loaders for the tests of `stoker audit`: one that keeps every promise, and one for each flaw."""

import os
import random
import signal
import subprocess
import sys

import numpy as np

from stoker.client import Loader

ROWS, BATCH = 24, 4


class Numbers:
    """Rows of (id, draw) as a function of seed, epoch and id, cut by rank; batches by name."""

    def __init__(self, seed=0, rank=0, world_size=1, only=None):
        self.seed, self.rank, self.world_size, self.only = seed, rank, world_size, only
        self.epoch, self.at = 0, 0

    def ids(self):
        return np.random.default_rng([self.seed, self.epoch]).permutation(ROWS)

    def draw(self, place):
        return np.random.default_rng([self.seed, self.epoch, place]).random()

    def rows(self):
        ids = self.ids()[self.rank :: self.world_size]
        shown = ids if self.only is None else np.full_like(ids, self.only)
        draws = [self.draw(place) for place in ids]
        return list(zip(shown.tolist(), draws, strict=True))

    def __iter__(self):
        rows = self.rows()
        while self.at + BATCH <= len(rows):
            part = rows[self.at : self.at + BATCH]
            self.at += BATCH
            ids, draws = zip(*part, strict=True)
            yield {"index": np.array(ids), "deep": ({"draw": np.array(draws)}, [*map(str, ids)])}
        self.epoch, self.at = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "at": self.at}

    def load_state_dict(self, state):
        self.epoch, self.at = state["epoch"], state["at"]


def good(workers=0, seed=0, epoch=0, rank=0, world_size=1, only=None):
    loader = Numbers(seed, rank, world_size, only)
    loader.epoch = epoch
    return loader


def takes_anything(**asked):
    assert sorted(asked) == ["epoch", "only", "rank", "seed", "workers", "world_size"]
    return good(**asked)


def takes_little():
    return Numbers()


def takes_other_names(num_workers=0, seed=0, *, shuffle=True):
    return Numbers(seed)


def unseeded(seed=0):
    return Numbers(random.SystemRandom().randrange(1 << 30))


def one_seed(seed=0):
    return Numbers()


class OneOrder(Numbers):
    def ids(self):
        return np.arange(ROWS)


def one_order(epoch=0):
    loader = OneOrder()
    loader.epoch = epoch
    return loader


def validation(seed=0, epoch=0):
    return OneOrder()


class ManyWorkers(Numbers):
    """Each worker reads all, as an iterable dataset that does not ask for its number."""

    def __init__(self, workers):
        super().__init__()
        self.workers = workers

    def rows(self):
        return super().rows() * max(self.workers, 1)


def all_in_each_worker(workers=0):
    return ManyWorkers(workers)


class OneGenerator(Numbers):
    """Each worker draws from a copy of one generator, and makes every other batch."""

    def __init__(self, workers, only):
        super().__init__(only=only)
        self.workers = max(workers, 1)

    def draw(self, place):
        where = int(np.flatnonzero(self.ids() == place)[0])
        batch = where // BATCH // self.workers
        return np.random.default_rng([self.epoch, batch, where % BATCH]).random()


def one_generator(workers=0, only=None):
    return OneGenerator(workers, only)


class SeededAgain(Numbers):
    """Draws are those of the first epoch, as with a seed that each epoch sets again."""

    def draw(self, place):
        return np.random.default_rng(place).random()


def seeded_again(workers=0, only=None):
    return SeededAgain(only=only)


def not_random(workers=0, only=None):
    loader = Numbers(only=only)
    loader.draw = lambda place: 0.5
    return loader


def blind_to_ranks(rank=0, world_size=1):
    return Numbers()


class Overlaps(Numbers):
    def rows(self):
        return [(number, 0.0) for number in range(6 * self.rank, 6 * self.rank + 12)]


def overlapping_ranks(rank=0, world_size=1):
    return Overlaps(rank=rank)


class Forgets(Numbers):
    def load_state_dict(self, state):
        self.at = state["at"] - BATCH


def forgets_a_batch():
    return Forgets()


class StateOfIterator:
    """Like Grain's iterators: `get_state` and `set_state`."""

    def __init__(self, loader):
        self.loader, self.source = loader, iter(loader)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.source)

    def get_state(self):
        return self.loader.state_dict()

    def set_state(self, state):
        self.loader.load_state_dict(state)


class WithoutState:
    def __init__(self, kind):
        self.kind = kind

    def __iter__(self):
        return self.kind(Numbers())


def state_of_iterator():
    return WithoutState(StateOfIterator)


def without_state():
    return WithoutState(iter)


def one_batch():
    return [np.zeros(3)]


def read_once():
    return iter([np.zeros(3), np.ones(3)])


# ------------------------------------------------------------------ runs that fail


def empty():
    return []


def needs_a_path(path, workers=0):
    raise AssertionError(path)


def returns_a_number():
    return 7


def odd_batches():
    return [{"image": np.zeros((2, 3)), "meta": object()}]


def raises_later(workers=0):
    yield np.zeros(3)
    yield np.zeros(3)
    if workers:
        raise KeyError("no such file")


def hangs():
    yield np.zeros(3)
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    with open(os.environ["AUDITED_CHILD"], "w") as file:
        file.write(str(child.pid))
    child.wait()


def crashes():
    yield np.zeros(3)
    os.kill(os.getpid(), signal.SIGSEGV)


def exits():
    sys.stderr.write("the disk is on fire\n")
    sys.stderr.flush()
    os._exit(3)
    yield


def ends():
    sys.exit(3)


NOT_CALLABLE = 3


# ------------------------------------------------------------------ Stoker


def stoker_loader(workers=0, seed=0, epoch=0, rank=0, world_size=1):
    """Read from a daemon that has so many workers, at least one."""
    address = os.environ[f"AUDITED_DAEMON_{max(workers, 1)}"]
    loader = Loader(
        address, pipeline="train", global_batch_size=BATCH, seed=seed, rank=rank,
        world_size=world_size, device="numpy",
    )  # fmt: skip
    loader.set_epoch(epoch)
    return loader
