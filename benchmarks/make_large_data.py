"""Make photographs of 12 megapixels for `throughput.py --data DIR`, and compare their pixels.

    python benchmarks/make_large_data.py DIR [--count 48]
    python benchmarks/throughput.py --data DIR --batch-size 16 --only ajerst --peer tfdata=PYTHON

The photographs are those of `packing.py`, in the layout of `foreign_data.py`. Then it prints how
far resized images that are decoded at a fraction are from those that are decoded exactly, as the
peak signal-to-noise ratio (PSNR): for some of these files, and for photographs of scikit-image.
"""

import argparse
from pathlib import Path

import numpy as np
import simplejpeg
import skimage.data
from packing import large_photographs

from stoker.ops.bases.resizing import plain_image
from stoker.ops.bases.scaled_box import divisor_of
from stoker.ops.kernels.resample import plain_resample
from stoker.ops.kernels.taps import TRIANGLE


def distances(data: bytes, outs: tuple[int, ...]) -> dict[int, float]:
    """Return divisor -> mean squared difference of a file that is resized to these squares."""
    height, width, *_ = simplejpeg.decode_jpeg_header(data)
    pixels, found = simplejpeg.decode_jpeg(data), {}
    for side in outs:
        divisor = divisor_of(height, width, side, side)
        small = simplejpeg.decode_jpeg(
            data, min_height=-(-height // divisor), min_width=-(-width // divisor),
            min_factor=divisor,
        )  # fmt: skip
        exact = np.empty((side, side, 3), np.uint8)
        plain_image(pixels, exact, (0, 0, height, width), TRIANGLE + 1)
        spans = (0.0, height / divisor), (0.0, width / divisor)
        scaled = plain_resample(small, (side, side), TRIANGLE, spans=spans)
        found[divisor] = float(np.mean((exact.astype(float) - scaled) ** 2))
    return found


def psnr(name: str, files: list[bytes], outs: tuple[int, ...]) -> None:
    """Print the PSNR by divisor."""
    rows = [distances(data, outs) for data in files]
    for divisor in sorted({n for row in rows for n in row} - {1}):
        mean = np.mean([row[divisor] for row in rows if divisor in row])
        print(f"{name:16} 1/{divisor}  {10 * np.log10(255**2 / mean):6.1f} dB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--count", type=int, default=48)
    arguments = parser.parse_args()
    folder = arguments.data / "imagenet_like"
    folder.mkdir(parents=True, exist_ok=True)
    made = large_photographs(folder, arguments.count)
    np.save(arguments.data / "imagenet_like" / "labels.npy", np.arange(len(made)) % 10)
    psnr("12 megapixels", [path.read_bytes() for path in made[:4]], (300, 600, 1200))
    sources = (skimage.data.astronaut(), skimage.data.coffee(), skimage.data.chelsea())
    files = [simplejpeg.encode_jpeg(np.ascontiguousarray(one), 90) for one in sources]
    psnr("photographs", files, (37, 75, 150))


if __name__ == "__main__":
    main()
