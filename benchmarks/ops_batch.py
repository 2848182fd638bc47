"""The batch ops on finished rows: two images of 224x224, against OpenCV, NumPy and PyTorch.

    python benchmarks/ops_batch.py [--rounds 200]

One row, one thread; results go to preallocated memory if the library allows it. Stoker's time
includes resolving the record, which names the partner. For cutmix, each contender computes its box.
Contenders alternate and the least time of each counts. Only the ratios are meaningful.
"""

import argparse
import math
from collections.abc import Callable

import cv2
import numpy as np
from interleave import least_times
from ops_subject import TORCH, Peers, Subject, one_thread

from stoker import ops
from stoker.jit.arithmetic import COMPILED
from stoker.ops.bases.batch_op import BatchOp, Mixed, picture_size
from stoker.ops.contract.states import State
from stoker.ops.kernels.means import Tools

SIDE = 224
PART = 0.3


def pictures(dtype: str) -> list[np.ndarray]:
    """Return two photographs, (SIDE, SIDE, 3)."""
    first = Subject(SIDE, SIDE).array
    scale = 1 if dtype == "uint8" else 1 / 255
    return [
        np.ascontiguousarray(photo * scale if scale != 1 else photo).astype(dtype)
        for photo in (first, first[::-1, ::-1])
    ]


def ours(op: BatchOp, sources: list[np.ndarray], dst: np.ndarray) -> Callable[[], np.ndarray]:
    """Return the op on a row, with the weight PART and a box in the middle."""
    state = State.fixed("image", dst.dtype.name, dst.shape)
    size, tools = picture_size(state), Tools(arithmetic=COMPILED)
    record = np.zeros(1, op.record)
    record["applied"] = 1
    if "y" in (op.record.names or ()):
        record["y"] = record["x"] = 0.5

    def call() -> np.ndarray:
        record["lam"] = PART  # the only drawn field that resolving changes
        op.resolve(record, size, [7])
        op.mix(Mixed(state, sources, dst), record[0], tools)
        return dst

    return call


def mixup(dtype: str) -> Peers:
    """Return the contenders of a weighted mean."""
    a, b = pictures(dtype)
    out = np.empty_like(a)
    found: Peers = {"Stoker": ours(ops.Mixup(), [a, b], np.empty_like(a))}
    if dtype != "float16":
        found["OpenCV"] = lambda: cv2.addWeighted(a, PART, b, 1 - PART, 0, out)
    if dtype != "uint8":
        p, q = (np.dtype(dtype).type(weight) for weight in (PART, 1 - PART))
        found["NumPy"] = lambda: a * p + b * q
        if TORCH:
            one, two = TORCH.from_numpy(a), TORCH.from_numpy(b)
            found["PyTorch"] = lambda: TORCH.lerp(two, one, PART).numpy()
    return found


def cutmix(dtype: str) -> Peers:
    """Return the contenders of a pasted box."""
    a, b = pictures(dtype)
    out = np.empty_like(a)

    def side(place: float, length: int) -> slice:
        middle, half = int(place * length), int(0.5 * math.sqrt(1 - PART) * length)
        return slice(max(middle - half, 0), min(middle + half, length))

    def numpy() -> np.ndarray:
        box = side(0.5, SIDE), side(0.5, SIDE)
        np.copyto(out, a)
        out[box] = b[box]
        return out

    return {"Stoker": ours(ops.Cutmix(), [a, b], np.empty_like(a)), "NumPy": numpy}


def cases() -> dict[str, Peers]:
    """Return the comparisons, by name."""
    found = {f"mixup ({dtype})": mixup(dtype) for dtype in ("uint8", "float32", "float16")}
    return {**found, "cutmix (uint8)": cutmix("uint8")}


def main() -> None:
    """Print the times and the ratio to the fastest peer."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    one_thread()
    for name, contenders in cases().items():
        times = least_times(contenders, rounds)
        mine = times.pop("Stoker")
        best = min(times, key=lambda peer: times[peer])
        print(f"{name:16} {1e6 * mine:7.1f} us   {mine / times[best]:5.2f} of {best}")


if __name__ == "__main__":
    main()
