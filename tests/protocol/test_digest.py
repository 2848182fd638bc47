"""The digest of a batch: every part counts, views and copies do not."""

import hashlib
import struct

import numpy as np
import torch

from stoker.protocol.digest import batch_digest

BATCH = {
    "image": np.arange(24, dtype=np.uint8).reshape(2, 4, 3),
    "half": np.array([1.5, -2], np.float16),
    "valid": np.array([True, False]),
}


def test_against_the_words_of_the_contract() -> None:
    digest = hashlib.blake2b(digest_size=16)
    digest.update((3).to_bytes(8, "little") + (2**40).to_bytes(8, "little"))
    for name in ("half", "image", "valid"):
        array = BATCH[name]
        for text in (name, str(array.dtype)):
            digest.update(len(text).to_bytes(8, "little") + text.encode())
        digest.update(struct.pack("<Q", array.ndim) + struct.pack(f"<{array.ndim}Q", *array.shape))
        digest.update(array.tobytes())
    assert batch_digest(BATCH, 3, 2**40) == digest.hexdigest()


def test_golden() -> None:
    assert batch_digest(BATCH, 0, 0) == "c79a708d53d6393a02bd29321023da38"
    assert batch_digest({}, 0, 0) == "463be1d58a72e9618ea59884367c4358"


def test_every_part_counts() -> None:
    image = BATCH["image"]
    variants = [
        (BATCH, 1, 0),
        (BATCH, 0, 1),
        ({**BATCH, "image": image + 1}, 0, 0),
        ({**BATCH, "image": image.reshape(2, 3, 4)}, 0, 0),
        ({**BATCH, "image": image.view(np.int8)}, 0, 0),
        ({"half": BATCH["half"], "valid": BATCH["valid"], "images": image}, 0, 0),
        ({"image": image, "half": BATCH["half"]}, 0, 0),
        ({**BATCH, "valid": np.array([True, True])}, 0, 0),
    ]
    digests = {batch_digest(*variant) for variant in [(BATCH, 0, 0), *variants]}
    assert len(digests) == 1 + len(variants)


def test_order_memory_and_library_do_not_count() -> None:
    expected = batch_digest(BATCH, 5, 6)
    reversed_order = dict(reversed(BATCH.items()))
    assert batch_digest(reversed_order, 5, 6) == expected
    strided = np.zeros((2, 4, 6), np.uint8)[:, :, ::2]
    strided[:] = BATCH["image"]
    assert batch_digest({**BATCH, "image": strided}, 5, 6) == expected
    fortran = np.asfortranarray(BATCH["image"])
    assert batch_digest({**BATCH, "image": fortran}, 5, 6) == expected
    tensors = {name: torch.from_numpy(array.copy()) for name, array in BATCH.items()}
    assert batch_digest(tensors, 5, 6) == expected
    other_end = BATCH["half"].astype(">f2")
    assert batch_digest({**BATCH, "half": other_end}, 5, 6) == expected


def test_scalars_and_empty_arrays() -> None:
    assert batch_digest({"a": np.int64(3)}, 0, 0) == batch_digest({"a": np.array(3)}, 0, 0)
    empty = batch_digest({"a": np.zeros((0, 4), np.uint8)}, 0, 0)
    assert empty != batch_digest({"a": np.zeros((4, 0), np.uint8)}, 0, 0)
