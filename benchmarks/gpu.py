"""A GPU that is kept busy: whether copies are hidden (promise P10), and how many cores it takes.

    python benchmarks/gpu.py [--device cuda] [--cores 1 2 4 8 16] [--steps 100] [--data DIR]
        [--only stoker torchvision dali-cpu dali-gpu]

ResNet-50 is trained in bfloat16, channels last, on batches of 256 images of 224 (`w1`). Printed are

- the bandwidth of copies from slots that Stoker page-locked, against copies from plain pinned
  memory of torch, on the same device in the same run: at least 0.95;
- the time of a step on Stoker's batches against that on one batch which stays on the device: at
  most 1.02, with as many cores as are asked for at most;
- for each loader and number of cores, the share of time in which the device is busy: the time of a
  step on the resident batch, divided by that of a step on the loader's batches.

Each loader runs in a process of its own that may use only that number of cores, workers, decoders
and training loop together. `--device cpu` is a trial of the script itself, with a network, images
and numbers of steps that are tiny: its figures mean nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import torch
from gpu_loaders import LOADERS, Work
from resnet import resnet
from workloads import packed_of, source_of

from stoker import ops
from stoker.client import Loader
from stoker.client.cuda_copies import CudaAccelerator
from stoker.dataset import schema, write
from stoker.pipeline import pipeline

HERE = Path(__file__).parent
GOAL, WARM, TIME_LIMIT_S = 0.9, 10, 1800
TINY = {"blocks": (1, 1), "width": 4, "classes": 10}


def settled(device: torch.device) -> None:
    """Wait until the device has done everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(device: torch.device, action: Callable[[], Any], times: int, warm: int) -> float:
    """Return the mean time of an action, after some that do not count."""
    for _ in range(warm):
        action()
    settled(device)
    begun = time.perf_counter()
    for _ in range(times):
        action()
    settled(device)
    return (time.perf_counter() - begun) / times


def trainer(device: torch.device) -> Callable[[Any, Any], None]:
    """Return a function that takes a training step on a batch."""
    torch.manual_seed(0)
    tiny = device.type == "cpu"
    model = (resnet(**TINY) if tiny else resnet()).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def step(images: Any, labels: Any) -> None:
        with torch.autocast(device.type, torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def one(work: Work, name: str, steps: int) -> dict[str, float]:
    """Measure a loader in this process: the time of a step on a resident batch, and on its own."""
    warm = min(WARM, steps)
    with LOADERS[name](work) as stream:
        step = trainer(work.device)
        batch = next(stream)
        images = batch[0].clone(memory_format=torch.preserve_format), batch[1].clone()
        resident_s = seconds(work.device, lambda: step(*images), steps, warm)
        loop_s = seconds(work.device, lambda: step(*next(stream)), steps, warm)
    return {"resident_s": resident_s, "loop_s": loop_s}


def bandwidth(work: Work, times: int) -> dict[str, float]:
    """Return bytes a second from page-locked slots of Stoker, and from pinned memory of torch."""

    @pipeline
    def levels(sample):  # type: ignore[no-untyped-def]
        return {"image": ops.resize(sample.image, size=(work.side, work.side))}

    device, cuda = work.device, work.device.type == "cuda"
    with Loader(
        work.packed, pipeline=levels, batch_size=work.batch_size, workers=1, device="numpy"
    ) as loader:
        array = next(iter(loader))["image"]
        pinned = torch.from_numpy(np.array(array))
        if cuda:
            pinned = pinned.pin_memory()
            accelerator = CudaAccelerator(torch, device, loader._connection.stream.slab)
            slot_s = seconds(device, lambda: accelerator.copy({"image": array}), times, 3)
            locked = len(accelerator.locks.slots)
            accelerator.close()
        else:
            slot_s, locked = seconds(device, lambda: torch.from_numpy(array).clone(), times, 3), 0
        plain_s = seconds(device, lambda: pinned.to(device, non_blocking=True, copy=True), times, 3)
    return {"slot": array.nbytes / slot_s, "plain": array.nbytes / plain_s, "locked": locked}


def data_of(folder: Path, *, tiny: bool) -> tuple[Path, Path]:
    """Return the JPEGs and the packed dataset; make them on first use."""
    if not tiny:
        return source_of(folder, "w1"), packed_of(folder, "w1", "packed")
    files, packed, rng = folder / "tiny-images", folder / "tiny-packed", np.random.default_rng(0)
    if not packed.exists():
        rows = []
        for number in range(32):
            image = rng.integers(0, 256, (48, 56, 3), np.uint8)
            place = files / str(number % 2) / f"{number}.jpg"
            place.parent.mkdir(parents=True, exist_ok=True)
            PIL.Image.fromarray(image).save(place)
            rows.append({"image": place.read_bytes(), "label": number % 2})
        write(packed, [schema.image(), schema.label()], rows)
    return files, packed


def run(part: str, given: argparse.Namespace, cores: int) -> dict[str, Any] | None:
    """Measure a part in a process of its own; None: what it needs is not installed."""
    command = [sys.executable, __file__, "--part", part, "--cores", str(cores), "--device"]
    command += [given.device, "--steps", str(given.steps), "--data", str(given.data)]
    done = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, text=True, timeout=TIME_LIMIT_S
    )
    if done.returncode:
        raise SystemExit(f"{part} failed with {cores} cores: its error is above")
    return json.loads(done.stdout.splitlines()[-1])


def measured(part: str, given: argparse.Namespace) -> dict[str, Any] | None:
    """Measure a part in this process, on the first cores."""
    allowed = sorted(os.sched_getaffinity(0))[: given.cores[0]]
    os.sched_setaffinity(0, allowed)
    torch.set_num_threads(len(allowed))
    tiny = given.device == "cpu"
    files, packed = data_of(given.data, tiny=tiny)
    size, side = (8, 32) if tiny else (256, 224)
    device = torch.device(given.device)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    work = Work(files, packed, device, size, side, given.cores[0])
    try:
        if part == "bandwidth":
            return bandwidth(work, given.steps)
        return one(work, part, given.steps)
    except ImportError as error:
        print(f"{part}: {error}", file=sys.stderr)
        return None


def lines(given: argparse.Namespace) -> Iterator[str]:
    """Measure everything; yield the lines of the report."""
    device = torch.device(given.device)
    what = torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU: a trial only"
    yield f"{what}; PyTorch {torch.__version__}; {len(os.sched_getaffinity(0))} cores\n"
    found = run("bandwidth", given, 1)
    assert found is not None
    yield (
        f"copies from slots {found['slot'] / 1e9:.2f} GB/s, from pinned memory"
        f" {found['plain'] / 1e9:.2f} GB/s: {found['slot'] / found['plain']:.3f} (at least 0.95);"
        f" {found['locked']} slots page-locked\n"
    )
    yield "| loader | cores | step, resident | step, loader | busy |"
    yield "|---|---|---|---|---|"
    for name in given.only:
        enough = None
        for cores in given.cores:
            found = run(name, given, cores)
            if found is None:
                yield f"| {name} | not measured: it needs what is not here | | | |"
                break
            resident, loop = found["resident_s"], found["loop_s"]
            busy = resident / loop
            steps = f"{1e3 * resident:.1f} ms | {1e3 * loop:.1f} ms"
            yield f"| {name} | {cores} | {steps} | {busy:.0%} |"
            enough = enough or (cores if busy >= GOAL else None)
        else:
            told = f"busy for {GOAL:.0%} with {enough} cores" if enough else f"below {GOAL:.0%}"
            limit = " (P10: a step at most 1.02 times as long)" if name == "stoker" else ""
            yield f"| {name} | {told} | | x {loop / resident:.3f}{limit} | |"


def main() -> None:
    """Measure, and print a report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--only", nargs="+", choices=LOADERS, default=list(LOADERS))
    parser.add_argument("--data", type=Path, default=HERE / "data")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.device != "cpu" and not torch.cuda.is_available():
        raise SystemExit("torch finds no CUDA device; --device cpu tries the script itself")
    if given.part:
        print(json.dumps(measured(given.part, given)))
        return
    there = len(os.sched_getaffinity(0))
    given.cores = [cores for cores in given.cores if cores <= there] or [there]
    for line in lines(given):
        print(line, flush=True)


if __name__ == "__main__":
    main()
