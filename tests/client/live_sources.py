"""Live sources for the tests with a real daemon; imported by it by name."""

import io
import os
import signal

import numpy as np
from PIL import Image

from stoker.dataset import schema

ROWS = 16


def picture(index: int) -> bytes:
    """A smooth picture of a size and content of its own."""
    y, x = np.mgrid[0 : 100 + index, 0 : 130 - index]
    pixels = np.stack([x + index, y * 2, x + y], -1).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=90)
    return out.getvalue()


class Photos:
    """Pictures, made when they are asked for; number 5 is none."""

    fields = (schema.bounded(schema.image(), 160, 160), schema.label(classes=("even", "odd")))
    fingerprint = "photos, version 1"

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        return {"image": picture(index), "label": index % 2}


class Spoilt(Photos):
    """Sample 5 cannot be made."""

    def __getitem__(self, index):
        if index == 5:
            raise ValueError("the film is torn")
        return super().__getitem__(index)


class Offline(Photos):
    """Nothing can be read."""

    def __getitem__(self, index):
        raise ConnectionError("no route to the archive")


class Gated(Photos):
    """Its processes stop for good at a gate, if there is one; see `gate`."""

    fingerprint = "gated, version 1"

    def __init__(self):
        gate("open")

    def __getitem__(self, index):
        gate("row")
        return super().__getitem__(index)


def gate(point: str) -> None:
    """Stop here while the test has a FIFO of that name: tell its reader, and wait to be killed."""
    path = os.path.join(os.environ["STOKER_TEST_GATES"], point)
    if os.path.exists(path):
        with open(path, "w") as fifo:
            fifo.write("here")
        while True:
            signal.pause()


class Vast:
    """10^12 samples: each is its number."""

    fields = (schema.scalar("number", "int64"),)
    fingerprint = "vast, version 1"

    def __len__(self):
        return 10**12

    def __getitem__(self, index):
        return {"number": index}
