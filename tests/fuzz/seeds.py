"""The first inputs of each target of `targets`: valid ones, small, of every form."""

import io
import json
import struct
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgpack
import numpy as np
import targets
from PIL import Image

from stoker import ops
from stoker.dataset import schema, write
from stoker.dataset.images.jpeg.grid import Grid
from stoker.pipeline import pipeline
from stoker.protocol import messages
from stoker.protocol.buckets import Buckets
from stoker.protocol.cursor import Cursor
from stoker.protocol.exclude import Excluded
from stoker.protocol.layout import Placed
from stoker.protocol.lengths import LengthBuckets
from stoker.protocol.mix import Component, mix_to_bytes
from stoker.protocol.remote.keys import public_text
from stoker.protocol.remote.tcp import HEAD, frame
from stoker.protocol.spec import StreamSpec
from stoker.protocol.subset import Subset
from stoker.protocol.weights import weights_of
from stoker.server.rows.graphs import graph_to_bytes

VECTORS: Final = Path(__file__).parents[2] / "docs/contracts/vectors/messages.json"


@cache
def records() -> list[dict[str, Any]]:
    return list(json.loads(VECTORS.read_text())["records"])


def packets(direction: str) -> list[bytes]:
    return [bytes.fromhex(case["hex"]) for case in records() if case["direction"] == direction]


def enveloped(direction: str) -> list[bytes]:
    start = b"\x93\x01\xc4\x10" + b"t" * 16 + b"\x91"
    return [start + packet for packet in packets(direction)]


def plain_spec() -> dict[str, Any]:
    opened = next(case["record"] for case in records() if case["record"][0] == "opened")
    return dict(opened[2])


def message_of_a_client() -> list[bytes]:
    return enveloped("client")


def message_of_a_daemon() -> list[bytes]:
    return enveloped("daemon")


def packet() -> list[bytes]:
    return packets("side")


def carrier_of_a_client() -> list[bytes]:
    batch = frame(messages.Carried(1, 0, 1, 100)) + bytes(100)
    ready = messages.Ready(1, "0" * 32, 0, 0, 1, 0, 1, 2, [Placed("data", "uint8", (100,), 0)])
    announced = frame(messages.Carried(1, 0, 1, 100, ready)) + bytes(100)
    replay = frame(messages.Replayed(1, 50)) + bytes(50)
    others = [HEAD.pack(len(packet)) + packet for packet in packets("side")]
    return [*others, batch, announced, replay, frame(messages.Attached()) + batch + replay + batch]


def carrier_of_a_daemon() -> list[bytes]:
    return [frame(messages.Attach(b"t" * 16)), *carrier_of_a_client()[:2]]


def spec() -> list[bytes]:
    return [msgpack.packb(plain_spec()), json.dumps(plain_spec()).encode()]


def cursor() -> list[bytes]:
    made = StreamSpec.from_data(plain_spec())
    places = Cursor.at(made, 0, 0, 0), Cursor.at(made, 3, 7, 1, [3])
    return [json.dumps(place.to_data()).encode() for place in places]


def graph() -> list[bytes]:
    @pipeline
    def flipped(sample: Any) -> Any:
        image, mask = ops.horizontal_flip(sample.image, sample.mask, p=0.5)
        if sample.label == 1:
            image = ops.invert(image)
        return {"image": ops.to_float(image), "mask": mask, "label": sample.label}

    return [graph_to_bytes(flipped.graph()).replace(__file__.encode(), b"seeds.py")]


def exclude() -> list[bytes]:
    return [Excluded([1, 5, 6]).to_bytes(), b""]


def subset() -> list[bytes]:
    return [Subset([1, 5, 6]).to_bytes(), msgpack.packb("train"), b""]


def weights() -> list[bytes]:
    forms = [1.0, 0.5, 0.0, 2.0], {"cat": 2.0, "dog": 1.0}, "weight"
    return [weights_of(form).to_bytes() for form in forms]


def mix() -> list[bytes]:
    return [mix_to_bytes([Component("a", 0.5, "p"), Component("b", 2.0, "", b"graph")])]


def buckets() -> list[bytes]:
    return [
        Buckets(max_area=10_000).to_bytes(),
        LengthBuckets(field="tokens", multiple=8).to_bytes(),
    ]


def replay() -> list[bytes]:
    head = msgpack.packb(["0" * 32, 1, 2, 3, 0, 0, [], [], []])
    return [struct.pack("<Q", len(head)) + head + bytes(64)]


def outputs() -> list[bytes]:
    return [msgpack.packb([["image", "uint8", [3, 8, 8]], ["label", "int64", []]])]


def key() -> list[bytes]:
    return [public_text(bytes(32)).encode(), b"stoker-secret-" + b"A" * 48]


def manifest() -> list[bytes]:
    rows = [{"pixels": np.full((4, 4), n, np.uint8), "label": n % 3} for n in range(5)]
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, "d"), [schema.array("pixels", "uint8", (4, 4)), schema.label()], rows)
        return [Path(folder, "d", "manifest.json").read_bytes()]


def arrow_offsets() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        return [targets.with_offsets(Path(folder, "d")).read()]


def npy() -> list[bytes]:
    found = []
    for shape, dtype in (((3, 4), "<f4"), ((2, 2, 2), "|u1"), ((), ">i8")):
        file = io.BytesIO()
        np.save(file, np.zeros(shape, dtype))
        found.append(file.getvalue())
    return found


def _encoded(kind: str, **more: Any) -> bytes:
    values = np.random.default_rng(0).integers(0, 255, (24, 40, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(values).save(file, kind, **more)
    return file.getvalue()


def jpeg_segments() -> list[bytes]:
    return [_encoded("JPEG"), _encoded("JPEG", progressive=True), _encoded("JPEG", subsampling=0)]


def png() -> list[bytes]:
    return [_encoded("PNG")]


def grid() -> list[bytes]:
    offsets = np.array([100, 110, 130, 140, 150], np.uint32)
    made = Grid(16, 16, 1, 2, 2, 20, 30, 60, offsets)
    return [struct.pack("<I", 150) + made.to_bytes()]
