"""Philox against Random123's known answers and against NumPy's generator."""

import hashlib

import numpy as np
import pytest

from stoker.jit import compiled
from stoker.rng.philox import key_block, philox4x64
from stoker.rng.streams import Key, machine_key, make_key, stream_key

# Random123, tests/kat_vectors, lines "philox4x64 10": counter, key, result.
KNOWN_ANSWERS = [
    (
        (0, 0, 0, 0),
        (0, 0),
        (0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B),
    ),
    (
        (2**64 - 1,) * 4,
        (2**64 - 1,) * 2,
        (0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0),
    ),
    (
        (0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0, 0x082EFA98EC4E6C89),
        (0x452821E638D01377, 0xBE5466CF34E90C6C),
        (0xA528F45403E61D95, 0x38C72DBD566E9788, 0xA5A1610E72FD18B5, 0x57BD43B5E52B7FE6),
    ),
]


def as_words(values: tuple[int, ...]) -> tuple[np.uint64, ...]:
    return tuple(np.uint64(value) for value in values)


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_known_answers(counter, key, expected):
    assert philox4x64(counter, key) == expected
    assert compiled(philox4x64)(as_words(counter), as_words(key)) == expected


def test_a_key_block_is_numpys_philox_one_counter_earlier():
    rng = np.random.default_rng(0)
    fast = compiled(key_block)
    for _ in range(200):
        parts = [int(word) for word in rng.integers(0, 2**64, 6, dtype=np.uint64)]
        key, block = Key(*parts[:5]), parts[5] or 1
        # NumPy increments the first counter word before it makes a block.
        generator = np.random.Philox(
            counter=np.array([block - 1, key.id, key.epoch, key.lane], np.uint64),
            key=np.array([key.seed, key.stream], np.uint64),
        )
        expected = tuple(int(word) for word in generator.random_raw(4))
        assert key_block(key, block) == expected
        assert fast(machine_key(key), np.uint64(block)) == expected


def test_the_lane_holds_visit_and_view():
    assert make_key(1, 2, 3, 4, 5, 6) == (1, 2, 3, 4, 5 * 65536 + 6)
    assert make_key(1, 2, 3, 4) == (1, 2, 3, 4, 0)
    assert make_key(1, 2, 3, 4, 2**48 - 1, 2**16 - 1).lane == 2**64 - 1


def test_the_stream_key_is_the_head_of_blake2b():
    full = hashlib.blake2b(b"rand_augment/1/rotate", digest_size=64).digest()
    assert stream_key("rand_augment/1/rotate") == int.from_bytes(full[:8], "little")
    assert stream_key("crop") != stream_key("flip")
    assert stream_key("Größe") == int.from_bytes(
        hashlib.blake2b("Größe".encode()).digest()[:8], "little"
    )
