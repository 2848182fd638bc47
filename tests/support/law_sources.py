"""Live sources of the Law test: photographs, cut out when they are asked for."""

import os
import signal
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

from stoker.dataset import schema

CRASHES = 11
FOLDER = Path(find_spec("skimage").origin).parent / "data"
"""Photographs of scikit-image, without its import: every builder and worker makes a source."""


class Photographs:
    """37 cuts of photographs of different sizes, with masks, in two classes."""

    fields = (
        schema.bounded(schema.image(encoding="raw"), 120, 120),
        schema.bounded(schema.mask(), 120, 120),
        schema.label(classes=("day", "night")),
    )
    fingerprint = "cuts of photographs, version 1"

    def __init__(self):
        names = ("astronaut", "chelsea", "coffee")
        self._photos = [np.array(Image.open(FOLDER / f"{name}.png")) for name in names]

    def __len__(self):
        return 37

    def __getitem__(self, index):
        photo = self._photos[index % 3]
        height, width = 70 + index * 7 % 50, 70 + index * 11 % 50
        top, left = index * 5 % (photo.shape[0] - height), index * 3 % (photo.shape[1] - width)
        image = np.ascontiguousarray(photo[top : top + height, left : left + width])
        mask = (image.astype(int).sum(2) // 192).astype(np.uint8)
        return {"image": image, "mask": mask, "label": index % 2}


class Crashing(Photographs):
    """The same, except that one sample kills the process that reads it."""

    fingerprint = "cuts of photographs that crash, version 1"

    def __getitem__(self, index):
        if index == CRASHES:
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().__getitem__(index)
