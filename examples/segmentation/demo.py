"""All of Stoker on real photographs: make data, pack, serve, train, preview, compare.

    python examples/segmentation/demo.py --out demo

`make demo` runs this script, in about three minutes on two cores. Every step is a separate process,
as in production: `stoker pack`, `stoker serve`, `train.py`. OUT keeps the data, the packed dataset,
the daemon's configuration and log, and preview.png. At the end the script checks that one worker
delivers the same bytes as three, and that no process is left.
"""

import argparse
import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import preview

from stoker.client import Loader

HERE = Path(__file__).resolve().parent
STOKER = str(Path(sys.executable).with_name("stoker"))
MARK = "STOKER_DEMO_RUN"
BATCH_SIZE = 32
CONFIGURATION = """\
[daemon]
address = "ipc://{socket}"
python_path = ["{here}"]

[workers]
count = {workers}

[memory]
limit = "512 MiB"

[datasets]
photos = "{packed}"

[pipelines]
train = "segmentation:train"
"""


def step(text: str) -> None:
    """Announce a step."""
    print(f"\n== {text}", flush=True)


@contextlib.contextmanager
def serving(out: Path, workers: int) -> Iterator[str]:
    """Run `stoker serve` in a separate process; yield its address; stop it with SIGTERM."""
    with tempfile.TemporaryDirectory(prefix="stoker-demo-") as folder:
        configuration = out / f"stoker-{workers}.toml"
        socket = f"{folder}/stoker.sock"
        configuration.write_text(
            CONFIGURATION.format(
                socket=socket, here=HERE, packed=(out / "packed").resolve(), workers=workers
            )
        )
        log = out / f"stoker-{workers}.log"
        with log.open("w") as lines:
            command = [STOKER, "serve", "--config", str(configuration)]
            print("$ " + " ".join(["stoker", *command[1:]]) + " &", flush=True)
            reader, writer = os.pipe()
            daemon = subprocess.Popen(
                [*command, "--ready-fd", str(writer)],
                stdout=lines,
                stderr=subprocess.STDOUT,
                pass_fds=(writer,),
            )
            os.close(writer)
            try:
                with open(reader) as ready:  # ends at once if the daemon fails to start
                    if '"address"' not in ready.read():
                        raise SystemExit(f"the daemon did not start:\n{log.read_text()}")
                yield f"ipc://{socket}"
            finally:
                daemon.send_signal(signal.SIGTERM)
                status = daemon.wait(timeout=30)
        if status != 0:
            raise SystemExit(f"the daemon ended with status {status}:\n{log.read_text()}")


def loader(address: str) -> Loader:
    """Open the stream that the demo trains on."""
    return Loader(
        address, dataset="photos", pipeline="train", batch_size=BATCH_SIZE, device="numpy"
    )


def digest(address: str) -> tuple[str, float]:
    """Return a digest over every byte of epoch 0, and the rate in images per second."""
    found, images, begun = hashlib.blake2b(digest_size=16), 0, time.perf_counter()
    with loader(address) as batches:
        for batch in batches:
            for name in ("index", "image", "mask", "label"):
                found.update(np.ascontiguousarray(batch[name]))
            images += len(batch["index"])
    return found.hexdigest(), images / (time.perf_counter() - begun)


def draw_preview(address: str, path: Path) -> None:
    """Write the contact sheet of the first batch."""
    with loader(address) as batches:
        batch = next(iter(batches))
        preview.write(path, np.array(batch["image"]), np.array(batch["mask"]))


def left_behind() -> list[str]:
    """List every living process that this run started, except this one."""
    mark, found = f"{MARK}={os.environ[MARK]}".encode(), []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    command = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ")
                    found.append(f"{name}: {command.decode()}")
    return found


def run(out: Path, pairs: int, epochs: int) -> None:
    """Run all steps."""
    source, packed = out / "source", out / "packed"
    step(f"make {pairs} pairs of image and mask from photographs of installed packages")
    command = [sys.executable, str(HERE / "make_data.py"), str(source), "--pairs", str(pairs)]
    subprocess.run(command, check=True)
    step("pack them: one Arrow file, random access in constant time")
    subprocess.run([STOKER, "pack", str(source), str(packed)], check=True)
    step("serve them with 3 workers, and train a small segmentation network")
    with serving(out, workers=3) as address:
        classes = str(source / "classes.json")
        command = [sys.executable, str(HERE / "train.py"), address, "--classes", classes]
        subprocess.run([*command, "--epochs", str(epochs)], check=True)
        draw_preview(address, out / "preview.png")
        print(f"wrote {out / 'preview.png'}")
        three, rate = digest(address)
        print(f"3 workers: {three}  ({rate:.0f} images/s without training)")
    step("the same stream from a new daemon with 1 worker")
    with serving(out, workers=1) as address:
        one, rate = digest(address)
        print(f"1 worker:  {one}  ({rate:.0f} images/s without training)")
    if one != three:
        raise SystemExit("the digests differ: this breaks the law, please report it")
    print("the digests are equal: the number of workers changes nothing")
    if left := left_behind():
        raise SystemExit("processes are left:\n" + "\n".join(left))
    print("no process is left")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo"))
    parser.add_argument("--pairs", type=int, default=640)
    parser.add_argument("--epochs", type=int, default=4)
    arguments = parser.parse_args()
    os.environ[MARK] = str(os.getpid())
    for name in ("source", "packed"):
        if (arguments.out / name).exists():
            shutil.rmtree(arguments.out / name)
    arguments.out.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    run(arguments.out, arguments.pairs, arguments.epochs)
    print(f"done in {time.perf_counter() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
