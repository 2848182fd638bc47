"""The image that all contenders work on, in the form that each library expects.

OpenCV and Pillow are required; torchvision and Albumentations take part if they are installed. All
run on one thread.
"""

import importlib
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from PIL import Image
from skimage import data

Call = Callable[[], Any]
Peers = dict[str, Call]

LESS = "*"
"""Suffix of the name of a peer whose pixels differ from the op's: it is shown, not compared."""


def optional(name: str) -> Any:
    """Return a module, or None if it is not installed or does not load."""
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError, KeyError):
        return None


TORCH = optional("torch")
TORCHVISION = TORCH and optional("torchvision.transforms.v2.functional")
ALBUMENTATIONS = optional("albumentations.augmentations.pixel.functional")


def one_thread() -> None:
    """Limit every library to one thread."""
    cv2.setNumThreads(1)
    if TORCH:
        TORCH.set_num_threads(1)


class Subject:
    """A photograph of the given size, cropped from one of scikit-image's.

    Attributes:
        array: `(height, width, 3) uint8`, for OpenCV, NumPy and Albumentations; or float32.
        picture: the same for Pillow; for floats, the levels.
        tensor: the same for torchvision, `(3, height, width)`; None without torchvision.
    """

    def __init__(self, height: int, width: int) -> None:
        photo = data.astronaut()
        top, left = (photo.shape[0] - height) // 2, (photo.shape[1] - width) // 2
        self.array = np.ascontiguousarray(photo[top : top + height, left : left + width])
        self.picture = Image.fromarray(self.array)
        self.tensor = self.as_tensor(self.array)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.array.shape[0], self.array.shape[1]

    def blank(self, height: int | None = None, width: int | None = None) -> np.ndarray:
        """Return memory for a result, by default of the image's own size."""
        rows, columns = self.size
        shape = height or rows, width or columns, *self.array.shape[2:]
        return np.empty(shape, self.array.dtype)

    @property
    def mask(self) -> "Subject":
        """A mask of eight classes (0, 32, ..., 224), of the same size, in the same forms."""
        return self.flat(self.array[..., 1] // 32 * 32)

    @property
    def gray(self) -> "Subject":
        """An image of one channel, of the same size, in the same forms."""
        found = self.flat(self.array[..., 1])
        found.array = found.array[..., np.newaxis]
        return found

    def flat(self, levels: np.ndarray) -> "Subject":
        """A two-dimensional array of levels in the forms of an image."""
        found = Subject.__new__(Subject)
        found.array = np.ascontiguousarray(levels)
        found.picture = Image.fromarray(found.array)
        found.tensor = self.as_tensor(found.array)
        return found

    @property
    def floats(self) -> "Subject":
        """The image in float32 from 0 to 1, for all libraries but Pillow."""
        found = Subject.__new__(Subject)
        found.array = self.array / np.float32(255)
        found.picture = self.picture
        found.tensor = self.as_tensor(found.array)
        return found

    def torchvision(self, call: Callable[[Any, Any], Any]) -> Peers:
        """Return the peer that calls `call(functional, tensor)`, if torchvision is installed."""
        return {"torchvision": lambda: call(TORCHVISION, self.tensor)} if TORCHVISION else {}

    def albumentations(self, call: Callable[[Any, np.ndarray], Any]) -> Peers:
        """Return the peer that calls `call(functional, array)`, if Albumentations is installed."""
        found = ALBUMENTATIONS
        return {"Albumentations": lambda: call(found, self.array)} if found else {}

    @staticmethod
    def as_tensor(array: np.ndarray) -> Any:
        """Return an image in torchvision's form; None without torchvision."""
        if not TORCHVISION:
            return None
        return TORCH.from_numpy(np.atleast_3d(array)).permute(2, 0, 1).contiguous()
