"""The chain of a training step: crop, resize, flip, color jitter, normalized float16 planes.

    python benchmarks/ops_chain.py [--rounds 200]

Stoker runs one compiled pipeline, called for one row. The peers apply the same decisions with the
code that a careful user would write: OpenCV with lookup tables wherever possible, and preallocated
memory. OpenCV's INTER_LINEAR is not antialiased and so does less (marked *). The script also prints
the time to compile the pipeline with an empty and with a filled cache, and the memory of a process
that runs it (`ops_build.py`).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from interleave import least_times
from ops_build import SIDE, chain
from ops_color import GAIN, LEVELS, MEAN, MEAN255, STD, look_up, table
from ops_subject import LESS, TORCHVISION, Peers, Subject, one_thread
from PIL import Image, ImageEnhance

from stoker.pipeline.compiled.executor import Executor, compile_plan
from stoker.rng.row import Row

FACTORS = ("brightness", "contrast", "saturation")


class Decided:
    """The decisions of Stoker's pipeline for the row, which the peers repeat."""

    def __init__(self, executor: Executor) -> None:
        records = {entry["op"]: entry["record"] for entry in executor.records()}
        crop, jitter = records["random_resized_crop"], records["color_jitter"]
        names = ("top", "left", "height", "width")
        self.top, self.left, self.height, self.width = (int(crop[name]) for name in names)
        self.factors = {name: float(jitter[name]) for name in FACTORS}
        self.order = [FACTORS[step] for step in jitter["order"] if step < len(FACTORS)]


def opencv(s: Subject, d: Decided, flag: int) -> Callable[[], np.ndarray]:
    """Return the chain in OpenCV, with an interpolation."""
    window = s.array[d.top : d.top + d.height, d.left : d.left + d.width]
    small, image, wide = (np.empty((SIDE, SIDE, 3), np.uint8) for _ in range(3))
    gray = np.empty((SIDE, SIDE), np.uint8)
    out = np.empty((3, SIDE, SIDE), np.float16)
    numbers = ((LEVELS[:, None] - MEAN255) * GAIN).astype(np.float16)

    def step(name: str) -> None:
        factor = d.factors[name]
        if name == "brightness":
            cv2.LUT(image, table(LEVELS * factor), image)
            return
        cv2.cvtColor(image, cv2.COLOR_RGB2GRAY, gray)
        if name == "contrast":
            rest = (1.0 - factor) * cv2.mean(gray)[0]
            cv2.LUT(image, table(LEVELS * factor + rest), image)
        else:
            cv2.cvtColor(gray, cv2.COLOR_GRAY2RGB, wide)
            cv2.addWeighted(image, factor, wide, 1.0 - factor, 0.0, image)

    def run() -> np.ndarray:
        cv2.resize(window, (SIDE, SIDE), small, interpolation=flag)
        cv2.flip(small, 1, image)
        for name in d.order:
            step(name)
        for c, channel in enumerate(cv2.split(image)):
            look_up(channel, numbers[:, c], out[c])
        return out

    return run


def pillow(s: Subject, d: Decided) -> Callable[[], np.ndarray]:
    """Return the chain in Pillow, with NumPy for functions that Pillow lacks."""
    enhance = {
        "brightness": ImageEnhance.Brightness,
        "contrast": ImageEnhance.Contrast,
        "saturation": ImageEnhance.Color,
    }
    box = (d.left, d.top, d.left + d.width, d.top + d.height)

    def run() -> np.ndarray:
        image = s.picture.crop(box).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        for name in d.order:
            image = enhance[name](image).enhance(d.factors[name])
        values = (np.asarray(image, np.float32) - MEAN255) * GAIN
        return np.ascontiguousarray(values.transpose(2, 0, 1), np.float16)

    return run


def torchvision(s: Subject, d: Decided) -> Peers:
    """Return the chain in torchvision's functions, if it is installed."""
    if not TORCHVISION:
        return {}
    import torch  # noqa: PLC0415 - optional

    f, box = TORCHVISION, (d.top, d.left, d.height, d.width)
    adjust = {name: getattr(f, f"adjust_{name}") for name in FACTORS}

    def run() -> np.ndarray:
        image = f.resized_crop(s.tensor, *box, [SIDE, SIDE], antialias=True)
        image = f.horizontal_flip(image)
        for name in d.order:
            image = adjust[name](image, d.factors[name])
        image = f.normalize(f.to_dtype(image, torch.float32, scale=True), list(MEAN), list(STD))
        done: np.ndarray = image.half().numpy()
        return done

    return {"torchvision": run}


def ours(s: Subject) -> tuple[Executor, Callable[[], np.ndarray]]:
    """Return the compiled pipeline, and a function that calls it."""
    executor = compile_plan(chain.plan_for({"image": s.array}))
    out, row = np.empty((3, SIDE, SIDE), np.float16), Row(1, 2, 3)

    def run() -> np.ndarray:
        executor.run(row, (s.array,), (out,))
        return out

    run()
    return executor, run


def contenders(s: Subject) -> Peers:
    """Return all chains."""
    executor, run = ours(s)
    d = Decided(executor)
    return {
        "Stoker": run,
        "OpenCV, INTER_AREA": opencv(s, d, cv2.INTER_AREA),
        f"OpenCV, INTER_LINEAR{LESS}": opencv(s, d, cv2.INTER_LINEAR),
        "Pillow": pillow(s, d),
        **torchvision(s, d),
    }


def builds() -> str:
    """Return a sentence on the time to compile and the memory of a process that has compiled."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in ("cold", "warm"):
            command = [sys.executable, str(Path(__file__).with_name("ops_build.py")), folder]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found.append(json.loads(done.stdout))
    cold, warm = found
    return (
        f"Compiling: {cold['seconds']:.1f} CPU-seconds with an empty cache, "
        f"{warm['seconds']:.2f} with a filled one. Resident: {cold['mib']:.0f} MiB after "
        f"compiling, {warm['mib']:.0f} MiB after loading."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    arguments = parser.parse_args()
    one_thread()
    times = least_times(contenders(Subject(375, 500)), arguments.rounds)
    print("| chain | us | of Stoker's time |\n|---|---|---|")
    for name, seconds in times.items():
        print(f"| {name} | {1e6 * seconds:.0f} | {seconds / times['Stoker']:.2f} |")
    print("\n" + builds())
    return 0


if __name__ == "__main__":
    sys.exit(main())
