"""Views for DINO and SimCLR: several crops of one decoded image, each with its own streams.

    python examples/multi_crop/multi_crop.py PACKED [--locals 6] [--batches 2]

prints the shapes of some batches of a packed dataset. docs/guides/multi-crop.md explains it.
"""

import argparse
from typing import Any

import numpy as np

from stoker import ops
from stoker.client import Loader
from stoker.pipeline import Pipeline, pipeline, random_apply, scope

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
JITTER = ops.ColorJitter(brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1)
BLUR, SOLARIZE = (1.0, 0.1), (0.0, 0.2)
"""Of the two global views of DINO; a local view is blurred with probability 0.5."""


def view(image: Any, size: int, scale: tuple[float, float], blur: float, solarize: float) -> Any:
    """Return one view: a random part of the image, resized, its colors changed.

    Args:
        image: of the sample.
        size: side of the view, in pixels.
        scale: (low, high) of the part's area over the image's.
        blur: probability of a Gaussian blur.
        solarize: probability of solarize.
    """
    image = ops.random_resized_crop(image, size=size, scale=scale, interpolation="bicubic")
    image = ops.horizontal_flip(image, p=0.5)
    image = random_apply(image, apply=JITTER, p=0.8)
    image = ops.grayscale(image, p=0.2)
    image = ops.gaussian_blur(image, kernel_size=9, sigma_range=(0.1, 2.0), p=blur)
    image = ops.solarize(image, p=solarize)
    return ops.normalize(image, mean=MEAN, std=STD, layout="CHW")


def dino(local_views: int = 6, global_size: int = 224, local_size: int = 96) -> Pipeline:
    """Return the views of DINO: two global crops and some local ones.

    Args:
        local_views: number of local crops, 0 or from 2 to 64.
        global_size: side of the global crops, in pixels.
        local_size: side of the local crops, in pixels.

    Returns:
        A pipeline with the outputs `global_views` (2, 3, side, side), `local_views`
        (n, 3, side, side) if there are any, and `label`.

    Raises:
        ValueError: `local_views` is neither 0 nor an integer from 2 to 64.
    """
    if type(local_views) is not int or not (local_views == 0 or 2 <= local_views <= 64):
        raise ValueError(
            f"dino: expected local_views to be 0, or an integer from 2 to 64, got {local_views!r}; "
            "`stack` joins 2 to 64 values"
        )

    @pipeline
    def crops(sample: Any) -> dict[str, Any]:
        big, small = [], []
        for n in range(2):
            with scope(f"global{n}"):  # streams global0/random_resized_crop and so on
                big.append(view(sample.image, global_size, (0.4, 1.0), BLUR[n], SOLARIZE[n]))
        for n in range(local_views):
            with scope(f"local{n}"):
                small.append(view(sample.image, local_size, (0.05, 0.4), 0.5, 0.0))
        found = {"global_views": ops.stack(*big), "label": sample.label}
        if small:
            found["local_views"] = ops.stack(*small)
        return found

    return crops


def simclr(size: int = 224) -> Pipeline:
    """Return the two views of SimCLR: outputs `views` (2, 3, size, size) and `label`."""

    @pipeline
    def pair(sample: Any) -> dict[str, Any]:
        views = []
        for n in range(2):
            with scope(f"view{n}"):
                views.append(view(sample.image, size, (0.08, 1.0), 0.5, 0.0))
        return {"views": ops.stack(*views), "label": sample.label}

    return pair


def main() -> None:
    """Print the shapes of some batches."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", help="a packed dataset with the fields image and label")
    parser.add_argument("--locals", type=int, default=6, help="number of local views")
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=8)
    given = parser.parse_args()
    with Loader(
        given.dataset, pipeline=dino(given.locals), batch_size=given.batch_size, seed=1,
        device="numpy",
    ) as loader:  # fmt: skip
        for step, batch in enumerate(loader):
            if step == given.batches:
                break
            shapes = {name: np.shape(batch[name]) for name in batch}
            print(f"step {step}: {shapes}")


if __name__ == "__main__":
    main()
