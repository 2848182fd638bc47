"""Packing: `stoker pack` against jpegtran (`-optimize -restart`), which transcodes the same files.

    python benchmarks/packing.py [FOLDER] [--rounds 3] [--files 400] [--large 6]

Both read the coefficients of a JPEG and code them again, with optimal Huffman tables and restart
markers. Packing also decodes each file before and after, compares the pixels, and computes
checksums and the fingerprint. The files are photographs of 500x375 (`make_data.py`, or those in
FOLDER/CLASS/NAME.jpg), and of 12 megapixels, which are made from those of scikit-learn.

Numbers are CPU seconds of processes (user and system) per file. Packing uses one worker process.
The cost of starting is taken off: of jpegtran that of `jpegtran -version`, of packing that of
packing a few of the files. The contenders take turns; each number is the least of all rounds.
jpegtran is in Debian's package libjpeg-turbo-progs.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import simplejpeg
from PIL import Image
from sklearn.datasets import load_sample_images
from workloads import source_of

HERE = Path(__file__).parent
STOKER = str(Path(sys.executable).with_name("stoker"))
LARGE = (3000, 4000)


def children_s() -> float:
    """Return the CPU seconds of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cost(*command: str | Path) -> float:
    """Run a command; return its CPU seconds."""
    before = children_s()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return children_s() - before


def large_photographs(folder: Path, count: int) -> list[Path]:
    """Make photographs of 12 megapixels: cuts of two, enlarged, with noise as of a sensor."""
    rng, made = np.random.default_rng(3), []
    for number in range(count):
        picture = load_sample_images().images[number % 2]
        top, left = int(rng.integers(0, 100)), int(rng.integers(0, 100))
        part = Image.fromarray(picture[top : top + 320, left : left + 427])
        pixels = np.asarray(part.resize(LARGE[::-1], Image.Resampling.BICUBIC), np.float32)
        noise = rng.normal(0, 3, LARGE).astype(np.float32)[..., None]
        pixels = np.clip(pixels + noise, 0, 255).astype(np.uint8)
        made.append(folder / f"{number:03d}.jpg")
        made[-1].write_bytes(simplejpeg.encode_jpeg(pixels, 90, colorsubsampling="420"))
    return made


def linked(files: list[Path], folder: Path) -> Path:
    """Return a folder of one class with these files."""
    (folder / "class").mkdir(parents=True)
    for number, file in enumerate(files):
        os.symlink(file.resolve(), folder / "class" / f"{number:05d}.jpg")
    return folder


def packing_s(source: Path, dest: Path) -> float:
    """Return the CPU seconds of packing a folder."""
    shutil.rmtree(dest, ignore_errors=True)
    return cost(STOKER, "pack", source, dest, "--workers", "1")


def transcoding_s(file: Path, dest: Path) -> float:
    """Return the CPU seconds of jpegtran for one file; restart markers as packing sets them."""
    return cost("jpegtran", "-copy", "all", "-optimize", "-restart", "2B", "-outfile", dest, file)


def compared(name: str, files: list[Path], rounds: int) -> None:
    """Print the row of one set of files."""
    few = max(1, len(files) // 20)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        whole, part = linked(files, place / "all"), linked(files[:few], place / "few")
        packing_s(part, place / "packed")  # compiles, if it is the first time
        spent: dict[str, list[float]] = {name: [] for name in ("few", "all", "start", "jpegtran")}
        for _ in range(rounds):
            spent["few"].append(packing_s(part, place / "packed"))
            spent["all"].append(packing_s(whole, place / "packed"))
            spent["start"] += [cost("jpegtran", "-version") for _ in range(10)]
            found = [transcoding_s(file, place / "out.jpg") for file in files]
            spent["jpegtran"].append(sum(found) / len(files))
        least = {name: min(seconds) for name, seconds in spent.items()}
    ours = (least["all"] - least["few"]) / (len(files) - few)
    theirs = least["jpegtran"] - least["start"]
    size = sum(file.stat().st_size for file in files) / len(files) / 1000
    row = f"| {name} | {len(files)} | {size:,.0f} | {1000 * theirs:.2f} "
    row += f"| {1000 * ours:.2f} | {theirs / ours:.2f} |"
    print(row, flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="FOLDER/CLASS/NAME.jpg")
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=400)
    parser.add_argument(
        "--large", type=int, default=6, help="of 12 megapixels, each packed 5 times"
    )
    given = parser.parse_args()
    if shutil.which("jpegtran") is None:
        sys.exit("jpegtran is not installed; it is in Debian's package libjpeg-turbo-progs")
    source = given.folder or source_of(given.data, "w1")
    files = sorted(source.glob("*/*.jpg"))
    files = files[:: max(1, len(files) // given.files)][: given.files]
    print("| photographs | files | KB | jpegtran, ms | stoker pack, ms | rate of jpegtran's |")
    print("|---|---|---|---|---|---|")
    compared("500x375" if given.folder is None else str(source), files, given.rounds)
    if given.large:
        with tempfile.TemporaryDirectory() as folder:
            large = 10 * large_photographs(Path(folder), given.large)
            compared("12 megapixels", large, given.rounds)


if __name__ == "__main__":
    main()
