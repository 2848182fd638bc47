"""Windows of JPEGs: Stoker against libjpeg-turbo's own decoding of a window, on the same windows.

    python benchmarks/jpeg_windows.py [--data DIR] [--files 60] [--rounds 15]

The windows are those of random resized crops, of photographs of 500x375 (`make_data.py`). The
contenders, on one core:

- libjpeg-turbo decodes the window (`jpeg_windows.c`) of the file as it came, without restart
  markers, and of the file that `stoker pack` wrote, with them;
- Stoker splices the restart intervals of the window, which libjpeg-turbo decodes;
- Stoker's own decoder decodes these intervals.

Prints megapixels of windows per CPU-second, and megabytes of the files that these windows take by
their area. CPU time is the least of the rounds, in which the contenders take turns. Needs a C
compiler and libjpeg-turbo's headers (Debian: gcc, libjpeg62-turbo-dev).
"""

import argparse
import ctypes
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import simplejpeg
from jpeg_decoding import random_box
from workloads import source_of

from stoker.dataset.images.box_decoding import BoxScratch, decode_boxed
from stoker.dataset.images.codecs import decode_jpeg
from stoker.dataset.images.jpeg import rewrite
from stoker.dataset.images.jpeg.decoding import BoxDecoder

HERE = Path(__file__).parent
WINDOWS = 4
"""Of each file."""
MOST = 1 << 24
"""Room for the bytes of an image's pixels."""


class Window(NamedTuple):
    """A window (top, left, height, width) of a file, as it came and with a grid."""

    came: bytes
    data: bytes
    grid: bytes
    size: tuple[int, int]
    box: tuple[int, int, int, int]

    @property
    def pixels(self) -> int:
        """Number of its pixels."""
        return self.box[2] * self.box[3]

    def bytes_of(self, file: bytes) -> float:
        """Return its share of a file's bytes."""
        return len(file) * self.pixels / (self.size[0] * self.size[1])


def windows_of(files: list[Path]) -> list[Window]:
    """Draw windows."""
    rng, found = np.random.default_rng(6), []
    for file in files:
        came = file.read_bytes()
        made = rewrite(came)
        height, width, *_ = simplejpeg.decode_jpeg_header(came)
        for _ in range(WINDOWS):
            box = random_box(rng, (height, width))
            found.append(Window(came, made.data, made.grid.to_bytes(), (height, width), box))
    return found


def compiled(folder: str) -> Any:
    """Compile the C source; return its function."""
    library = Path(folder) / "windows.so"
    command = ["cc", "-O2", "-shared", "-fPIC", HERE / "jpeg_windows.c", "-ljpeg", "-o", library]
    subprocess.run(command, check=True)
    function = ctypes.CDLL(str(library)).decode_window
    number, address = ctypes.c_uint, ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_ulong, *[number] * 4, address, address]
    function.restype = None
    return function


def contenders(decode: Any) -> dict[str, Callable[[Window], None]]:
    """Return the ways to decode a window."""
    row, out = np.zeros(3 * 65536, np.uint8), np.zeros(MOST, np.uint8)
    scratch, decoder = BoxScratch(), BoxDecoder()

    def crop(file: bytes, box: tuple[int, int, int, int]) -> None:
        top, left, height, width = box
        decode(file, len(file), left, top, width, height, row.ctypes.data, out.ctypes.data)

    def spliced(window: Window) -> None:
        height, width = window.size
        image = out[: 3 * height * width].reshape(height, width, 3)
        views = memoryview(window.data), memoryview(window.grid)
        if not decode_boxed(*views, window.size, 1, window.box, image, scratch):
            decode_jpeg(views[0], "image", window.size, out[: 3 * height * width])

    def own(window: Window) -> None:
        height, width = window.size
        views = memoryview(window.data), memoryview(window.grid)
        place = 3 * (window.box[0] * width + window.box[1])
        most = height * width
        if not decoder.decode(*views, window.size, window.box, most, (out, place, 3 * width)):
            raise SystemExit("a file is not covered")

    return {
        "libjpeg-turbo's window, no markers": lambda window: crop(window.came, window.box),
        "libjpeg-turbo's window, restart markers": lambda window: crop(window.data, window.box),
        "Stoker, spliced for libjpeg-turbo": spliced,
        "Stoker's own decoder": own,
    }


def measured(
    windows: list[Window], ways: dict[str, Callable[[Window], None]], rounds: int
) -> dict[str, float]:
    """Return the CPU seconds of all windows for each contender."""
    least = dict.fromkeys(ways, float("inf"))
    for turn in range(rounds + 1):  # the first one compiles
        for name, way in ways.items():
            begun = time.process_time()
            for window in windows:
                way(window)
            if turn:
                least[name] = min(least[name], time.process_time() - begun)
    return least


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--files", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    files = sorted(source_of(given.data, "w1").glob("*/*.jpg"))
    windows = windows_of(files[:: max(1, len(files) // given.files)][: given.files])
    with tempfile.TemporaryDirectory() as folder:
        try:
            ways = contenders(compiled(folder))
        except (FileNotFoundError, subprocess.CalledProcessError):
            sys.exit("it needs a C compiler and libjpeg-turbo's headers (libjpeg62-turbo-dev)")
        least = measured(windows, ways, given.rounds)
    pixels = sum(window.pixels for window in windows) / 1e6
    first = next(iter(least.values()))
    print("| decoder | us a window | MP/s | MB/s | of the first |")
    print("|---|---|---|---|---|")
    for name, spent in least.items():
        came = "no markers" in name
        size = sum(w.bytes_of(w.came if came else w.data) for w in windows) / 1e6
        row = f"| {name} | {1e6 * spent / len(windows):.0f} | {pixels / spent:.1f} "
        print(row + f"| {size / spent:.1f} | {first / spent:.2f} |", flush=True)


if __name__ == "__main__":
    main()
