"""Every stored input, and some changes of each, against every target of `targets`."""

import random
from collections import Counter
from pathlib import Path

import msgpack
import pytest
import seeds
import targets

CORPUS = Path(__file__).parent / "corpus"
MUTATIONS = 600
PIECES = (
    b"\x00",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xc0",
    b"\xc1",
    b"\xdd\xff\xff",
    b"\xff" * 8,
)


@pytest.fixture(autouse=True)
def prepared():
    yield
    targets.release()


def inputs(name: str) -> list[bytes]:
    stored = CORPUS / f"{name}.msgpack"
    found = msgpack.unpackb(stored.read_bytes()) if stored.exists() else []
    return [*getattr(seeds, name)(), *found]


def changed(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """Change a few places, or splice two inputs."""
    if rng.randrange(8) == 0:
        other = rng.choice(others)
        return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
    made = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(made) + 1)
        stop = min(len(made), start + rng.choice((0, 1, 1, 2, 8)))
        made[start:stop] = rng.choice((*PIECES, bytes([rng.randrange(256)]), bytes(made[stop:])))
    return bytes(made[: 2**16])


@pytest.mark.parametrize("name", sorted(targets.TARGETS))
def test_every_input_is_accepted_or_refused(name) -> None:
    target, stored = targets.TARGETS[name], inputs(name)
    outcomes = Counter(target(data) for data in stored)
    assert outcomes[True], "a target that accepts nothing tests nothing"
    rng = random.Random(name)
    for _ in range(MUTATIONS):
        data = changed(rng.choice(stored), rng, stored)
        try:
            outcomes[target(data)] += 1
        except Exception as error:
            raise AssertionError(f"{name} failed for bytes.fromhex({data.hex()!r})") from error
    assert outcomes[False], "changes that are never refused are none"


def test_every_target_has_seeds() -> None:
    assert {path.stem for path in CORPUS.glob("*")} <= set(targets.TARGETS)
    assert all(callable(getattr(seeds, name)) for name in targets.TARGETS)
