"""The first inputs of each target of `targets`: valid ones, small, of every form."""

import io
import json
import struct
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgpack
import msgspec
import numpy as np
import pyarrow as pa
import targets
from asking import opening
from file_targets import planes_seed, reduced_seed
from PIL import Image

from stoker import ops
from stoker.dataset import schema, write
from stoker.dataset.format.unpacked_form import header_of
from stoker.dataset.images.jpeg.grid import Grid
from stoker.pipeline import pipeline
from stoker.protocol import codec, messages
from stoker.protocol.chain import batch_of_rows, chain_on, chain_start
from stoker.protocol.cursor import Cursor
from stoker.protocol.exclude import Excluded
from stoker.protocol.length_buckets import LengthBuckets
from stoker.protocol.remote.keys import public_text, secret_text
from stoker.protocol.remote.tcp import HEAD, frame
from stoker.protocol.row_digests import RowDigests
from stoker.protocol.size_buckets import Buckets
from stoker.protocol.slot_layout import Placed
from stoker.protocol.spec import StreamSpec
from stoker.protocol.subset import Subset
from stoker.protocol.weights import weights_of
from stoker.server.rows.graphs import graph_to_bytes

VECTORS: Final = Path(__file__).parents[2] / "docs/contracts/vectors/messages.json"
CERTIFICATES: Final = (
    (
        "308201843082012aa00302010202142cc1675d98348f0836e61046bedc8fe78d122c6c300a06082a8648ce3d"
        "0403023041313f303d06035504030c3673746f6b6572206461656d6f6e203263633136373564393833343866"
        "30383336653631303436626564633866653738643132326336633020170d3230303130313030303030305a18"
        "0f39393939313233313233353935395a3041313f303d06035504030c3673746f6b6572206461656d6f6e2032"
        "6363313637356439383334386630383336653631303436626564633866653738643132326336633059301306"
        "072a8648ce3d020106082a8648ce3d03010703420004973be5ac1bb9dc613ba25fff02b4f4ee67620f893437"
        "89d92640020733da888d5c0e6a85177bcf9d6c8a5fb237e5e2e62a1484eed44be44544cd902b1aa54416300a"
        "06082a8648ce3d0403020348003045022100caf2e384fb1493f9e1195d83f9fe63c55cdb37d63354efa278a9"
        "f9c3db6f7f83022062a1536e52ce22a7b43f5c7974014e0f223195717c4daea351858ce212cd4a75"
    ),
    (
        "3082016d30820112a003020102021461f6138469076d8c7d434da73c5ffc3b3a90df7c300a06082a8648ce3d"
        "04030230353133303106035504030c2a78203631663631333834363930373664386337643433346461373363"
        "35666663336233613930646637633020170d3230303130313030303030305a180f3939393931323331323335"
        "3935395a30353133303106035504030c2a782036316636313338343639303736643863376434333464613733"
        "6335666663336233613930646637633059301306072a8648ce3d020106082a8648ce3d030107034200045e48"
        "f3a5a7f741ca027ba2dbe12c62c47d23e61abaeb881eb6485d52a4c4647cc77f6d448353c662f2bd6fd3f974"
        "7086a2d88d7385091d57371317c435bda565300a06082a8648ce3d0403020349003046022100d99b32965709"
        "40e0a3439695191832eb373b156526c9f63fb684ba3d05160418022100ad5581dcf0db3e9b499dec2f997e37"
        "feb06a2e7894ef3c18d0d1a265ff8f467e"
    ),
)
"""Two that `make_identity` made; new ones would make other tests of each run."""


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
    return [Subset([1, 5, 6]).to_bytes(), b""]


def weights() -> list[bytes]:
    forms = [1.0, 0.5, 0.0, 2.0], {"cat": 2.0, "dog": 1.0}, "weight"
    return [weights_of(form).to_bytes() for form in forms]


def request() -> list[bytes]:
    """OPEN with all that a stream can ask for."""
    wishes = [
        opening(mix=[("a", 0.5, "p"), ("b", 2.0, "q")], exclude=bytes(8)),
        opening(buckets=Buckets(max_area=10_000), split="train", seed=2**64 - 1),
        opening(buckets=LengthBuckets(field="tokens", multiple=8), freeze={"crop": "epoch"}),
        opening(graph=b"{}", shuffle_block=16, shuffle_seed=3, total_epochs=9, params=True),
        opening(group="g", group_size=2, mode="fork", views=2, tail="pad", on_error="mask"),
    ]
    return [codec.encode(targets.TOKEN, [wish]) for wish in wishes]


def replay() -> list[bytes]:
    head = msgpack.packb(["0" * 32, 1, 2, 3, 0, 0, [], [], []])
    return [struct.pack("<Q", len(head)) + head + bytes(64)]


def outputs() -> list[bytes]:
    return [msgpack.packb([["image", "uint8", [3, 8, 8]], ["label", "int64", []]])]


def host_share() -> list[bytes]:
    seeks = [messages.Seek(1, 3, 2, [], [11, 22, 33], host) for host in range(3)]
    seeks += [messages.Seek(2, 2**40, 0, [5], [2**64 - 1], 0), messages.Seek(1, 0, 0)]
    return [msgspec.msgpack.encode(seek) for seek in seeks]


def verified() -> list[bytes]:
    """Runs of one and three batches; in one of them the last batch is wrong."""
    slot = np.arange(targets.SLOT_BYTES, dtype=np.uint8)
    placed = [Placed("x", "uint8", (2, 8), 0)]
    digests = RowDigests([]).of(slot, placed, 0, 2)
    stream, made = "0" * 32, []
    chain = chain_start(stream, 0, 4)
    for step in range(4, 7):
        chain = chain_on(chain, 0, step, batch_of_rows(digests))
        made.append(messages.Ready(1, stream, 0, step, 0, 0, step, 2, placed, [], digests, chain))
    wrong = msgspec.structs.replace(made[2], digests=bytes(16))
    runs = made[:1], made, [*made[:2], wrong]
    return [codec.encode(targets.TOKEN, run) for run in runs]


def session() -> list[bytes]:
    """Messages of a client: openings of several forms, and what follows them."""
    given = {
        "dataset": "d", "pipeline": "p", "batch_size": 8, "seed": 7, "prefetch": 2, "leases": 1
    }  # fmt: skip
    made = []
    for more in ({}, {"group": "g", "group_size": 1}, {"rank": 1, "world_size": 2, "views": 2}):
        wish = opening(**(given | more))
        made += [
            [wish],
            [wish, messages.Seek(1, 0, 0), messages.Credit(1, 2), messages.Release([(0, 1)])],
            [wish, messages.Seek(1, 0, 1, [], [1, 2], 1), messages.Credit(1, 9)],
            [wish, messages.AskReplay(7, 3, 0, 0, 0), messages.AskStatus(), messages.Close()],
        ]
    return [codec.encode(targets.TOKEN, said) for said in made] + enveloped("client")


def key() -> list[bytes]:
    return [public_text(bytes(32)).encode(), b"stoker-secret-" + b"A" * 48]


def client_list() -> list[bytes]:
    lines = [f"{public_text(bytes([number] * 32))} name-{number}" for number in range(3)]
    forms = "\n".join(lines), f"# those who may\n\n  {lines[0]}  # she\n", "\r\n".join(lines[:2])
    wrong = f"{lines[0]}\n{lines[0]}\n", f"{lines[0]} more\n", secret_text(bytes(32)) + " name\n"
    return [text.encode() for text in (*forms, *wrong, "")]


def secret_file() -> list[bytes]:
    secret = secret_text(bytes(32))
    forms = secret + "\n", f"# keep it\n{secret}", f"{secret}\n{secret}", public_text(bytes(32))
    return [text.encode() for text in forms]


def certificate() -> list[bytes]:
    """Certificates of Stoker's form: one, another one, both, one that is cut."""
    found = [bytes.fromhex(text) for text in CERTIFICATES]
    return [*found, found[0] + found[1], found[0][:-1]]


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
    of_version = [
        Grid(16, 16, 1, 2, 2, 20, 30, 60, offsets, checksums)
        for checksums in (None, np.arange(6, dtype=np.uint32))
    ]
    return [struct.pack("<I", 150) + made.to_bytes() for made in of_version]


def arrow_claims() -> list[bytes]:
    words = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), ["y" * 300])
    table, found = pa.table({"x": [bytes(200)] * 2, "words": words}), []
    for new in (pa.ipc.new_file, pa.ipc.new_stream):
        for compression in ("zstd", "lz4", None):
            out = pa.BufferOutputStream()
            options = pa.ipc.IpcWriteOptions(compression=compression)
            with new(out, table.schema, options=options) as writer:
                writer.write_table(table)
            found.append(out.getvalue().to_pybytes())
    return found


def csv_table() -> list[bytes]:
    texts = "image,label\na.jpg,cat\n", 'x,y\r\n1.5,"a, ""b"""\r\n2,\r\n', ",x\n0,1\n1,2\n", "x\n"
    return [*(text.encode() for text in texts), b"\xef\xbb\xbfx,y\n1,2\n"]


def yolo_description() -> list[bytes]:
    plain = "train: images\nnames: {0: a, 1: b}\n"
    aliases = "l0: &l0 [x, x]\nl1: &l1 [*l0, *l0]\ntrain: [a, b]\nnames: [no, '1']\n"
    return [text.encode() for text in (plain, aliases, "[[[")]


def coco_description() -> list[bytes]:
    image = {"id": 1, "file_name": "a.jpg", "height": 20, "width": 30}
    shapes = [[[1, 2, 9, 2, 9, 9]], {"size": [20, 30], "counts": "0Yc0"}]
    one = {"image_id": 1, "category_id": 3, "bbox": [1, 2, 9.5, 8], "area": 70.0}
    objects = [{**one, "id": n, "segmentation": shape} for n, shape in enumerate(shapes)]
    described = {"images": [image], "categories": [{"id": 3, "name": "cat"}]}
    files = ({**described, "annotations": objects}, described, {"images": [image]})
    return [json.dumps(file).encode() for file in files] + [b'{"images": ' + b"[" * 2000]


def jpeg_planes() -> list[bytes]:
    return [planes_seed().data]


def jpeg_reduced() -> list[bytes]:
    made = reduced_seed()
    return [bytes([way]) + made.data[int(made.grid.offsets[0]) :] for way in range(3)]


def unpacked_header() -> list[bytes]:
    fields = (schema.image(), schema.label(classes=("a",)), schema.optional(schema.boxes()))
    return [header_of("content:0", fields), b'{"fingerprint": "", "fields": []}']


def unpacked_samples() -> list[bytes]:
    items = {"xyxy": [[1, 2, 3, 4]]}
    lines = ({"image": "a.jpg", "label": 1, "boxes": items}, {"image": "b", "label": "nan"})
    return [b"\n".join(json.dumps(line).encode() for line in lines), b"[" * 2000]


def npz() -> list[bytes]:
    found = []
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, images=np.zeros((3, 4, 5, 3), np.uint8), label=np.arange(3))
        found.append(file.getvalue())
    return found
