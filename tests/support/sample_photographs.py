"""The two photographs of scikit-learn, which need not be imported for them: that takes a second."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image

FOLDER = Path(find_spec("sklearn").origin).parent / "datasets" / "images"


def sample_photographs() -> tuple[np.ndarray, np.ndarray]:
    """Return a temple and a flower, each (427, 640, 3) uint8."""
    temple, flower = (
        np.asarray(Image.open(FOLDER / f"{name}.jpg")) for name in ("china", "flower")
    )
    return temple, flower
