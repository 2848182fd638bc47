"""Errors of values that users, files and peers give, as a table: call, error, message.

In a message, " ... " separates its parts.
"""

import json
import math
import zlib

import numpy as np
import pytest

from stoker.protocol import codec
from stoker.protocol.canonical import canonical_bytes
from stoker.protocol.cursor import MAX_BYTES, Cursor
from stoker.protocol.errors import ConfigError, ProtocolError, ResumeError, UsageError
from stoker.protocol.exclude import Excluded, read_ids
from stoker.protocol.item_fields import ItemField
from stoker.protocol.ragged import spread
from stoker.protocol.remote.keys import (
    PUBLIC,
    public_key_of,
    public_text,
    read_clients,
    read_public,
    read_secret_file,
    secret_text,
)
from stoker.protocol.remote.shares import HostShare
from stoker.protocol.slot_layout import (
    Output,
    batch_layout,
    check_outputs,
    slot_layout,
    told_shapes,
)
from stoker.protocol.spec import MAX_EXCLUDED, OrderSpec, StreamSpec
from stoker.protocol.subset import MAX_SUBSET_ROWS, Subset

HEX = "f" * 32
GOOD = {"dataset": "content:" + HEX, "dataset_rows": 100, "pipeline": HEX, "batch_size": 8}
SPEC = StreamSpec(**GOOD)
PLACE = {"stream": HEX, "epoch": 0, "step": 0}
EDITED = {**Cursor.at(SPEC, 0, 0).to_data(), "stream": "0" * 32}
LONGER = MAX_BYTES + 1 - len(json.dumps({**PLACE, "stream": ""}))
ONE, TWO = public_text(b"1" * 32), public_text(b"2" * 32)
SECRET_LINE = secret_text(b"3" * 32) + "\n"
VARIED = Output("x", "uint8", (4, 4), form="pad", varies=(0, 1))
ROW = ("x", "uint8", (4, 4, 3), "image", ())
BOX = (ItemField("xyxy", "float32", 4), ItemField("label", "int64"))
BOXES = (Output("b", "uint32", (3, 6), "boxes", BOX), Output("b.count", "int64", ()))
LIST = (
    Output("x", "uint8", (4,), "array", (), "list", (0,)),
    Output("x.size", "int64", (1,), "size"),
)
ID_OR_OBJECT = "list, line 2: expected a sample id, or a JSON object"


def stream(**changes):
    return StreamSpec(**{**GOOD, **changes})


def stream_of_data(**changes):
    return StreamSpec.from_data({**SPEC.to_data(), **changes})


def spread_boxes(shape, counts):
    return spread("b", BOX, np.zeros(shape, np.uint32), np.array(counts, np.int64))


def excluded(*ids):
    return Excluded.from_bytes(np.array(ids, "<i8").tobytes())


def ids_of(folder, line):
    (folder / "list").write_text(f"4\n{line}\n")
    return read_ids(folder / "list")


def written(folder, data):
    """A file that nobody else can read."""
    path = folder / "file"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    path.chmod(0o600)
    return path


ERRORS = [
    # codec: messages and packets
    (lambda _: codec.decode_from_client(bytes(codec.MAX_MESSAGE_BYTES + 1)), ProtocolError,
     "at most 4194304 bytes, got 4194305"),
    (lambda _: codec.decode_packet(bytes(codec.MAX_PACKET_BYTES + 1)), ProtocolError,
     "at most 65536 bytes, got 65537"),
    # Cursor.from_data, and check
    (lambda _: Cursor.from_data(None), ResumeError,
     "expected a cursor of version 1: ... pass what state_dict"),
    (lambda _: Cursor.from_data({}), ResumeError, "missing required field `stream`"),
    (lambda _: Cursor.from_data({**PLACE, "step": "1"}), ResumeError,
     "Expected `int`, got `str` - at `$.step`"),
    (lambda _: Cursor.from_data({**PLACE, "rank": 1}), ResumeError, "unknown field `rank`"),
    (lambda _: Cursor.from_data({**PLACE, "version": 2}), ResumeError, "Invalid enum value 2"),
    (lambda _: Cursor.from_data({**PLACE, "crashed": [-1]}), ResumeError, "Expected `int` >= 0"),
    (lambda _: Cursor.from_data({**PLACE, "crashed": [1] * 9}), ResumeError, "of length <= 8"),
    (lambda _: Cursor.from_data({**PLACE, "epoch": -1}), ResumeError, "at least 0, got -1, 0, 0"),
    (lambda _: Cursor.from_data({**PLACE, "step": -1}), ResumeError, "at least 0, got 0, -1, 0"),
    (lambda _: Cursor.from_data({**PLACE, "skipped": -1}), ResumeError, "at least 0, got 0, 0, -1"),
    (lambda _: Cursor.from_data({**PLACE, "stream": "f" * LONGER}), ResumeError,
     "at most 1024 bytes as JSON, got 1025; pass what state_dict() returned"),
    (lambda _: Cursor.from_data(EDITED).check(SPEC), ResumeError,
     "the cursor was edited: its stream id does not match its fields"),
    # Excluded, and lists of ids
    (lambda _: Excluded.from_bytes(b"123456789"), UsageError,
     "expected 8 bytes per id, got 9 bytes"),
    (lambda _: excluded(1, 1), UsageError, "ascending, every id once, got 1 after 1"),
    (lambda _: excluded(2, 1), UsageError, "ascending, every id once, got 1 after 2"),
    (lambda _: excluded(-1, 4), UsageError, "expected ids from 0 ... every id once, got -1"),
    (lambda _: excluded(2**48), UsageError, "below 2**48, ascending ... got 281474976710656"),
    (lambda _: excluded(*range(MAX_EXCLUDED + 1)), UsageError,
     "at most 131072 ids, got 131073; pack the dataset again"),
    (lambda _: Excluded([3, -1]), UsageError, "exclude: expected sample ids"),
    (lambda _: Excluded([3, 2**48]), UsageError, "exclude: expected sample ids"),
    (lambda _: Excluded([3, 1.5]), UsageError, "exclude: expected sample ids"),
    (lambda _: Excluded([3, "7"]), UsageError, "exclude: expected sample ids"),
    (lambda _: Excluded([3, None]), UsageError, "exclude: expected sample ids"),
    (lambda _: Excluded([3, True]), UsageError, "exclude: expected sample ids"),
    (lambda _: Excluded([0, 8]).check(8), UsageError,
     "has 8 samples, ids 0 to 7; the list names 8: does it belong"),
    (lambda _: Excluded(range(3)).check(3), UsageError, "the list names all 3 samples"),
    (lambda folder: ids_of(folder, "x"), UsageError, ID_OR_OBJECT),
    (lambda folder: ids_of(folder, '{"id": "7"}'), UsageError, ID_OR_OBJECT),
    (lambda folder: ids_of(folder, '{"field": 1}'), UsageError, ID_OR_OBJECT),
    (lambda folder: ids_of(folder, "-3"), UsageError, ID_OR_OBJECT),
    (lambda folder: ids_of(folder, "[1]"), UsageError, ID_OR_OBJECT),
    (lambda folder: ids_of(folder, "1 2"), UsageError, ID_OR_OBJECT),
    (lambda folder: ids_of(folder, '{"id":'), UsageError, ID_OR_OBJECT),
    (lambda folder: read_ids(folder / "absent"), UsageError,
     "cannot read ... /absent: No such file"),
    (lambda folder: read_ids(written(folder, b"\xff\xfe\x00")), UsageError,
     "cannot read ... /file: ... got UTF-16"),
    # Keys: their text, and files of them
    (lambda _: read_public("", "here"), ConfigError, "here: expected stoker-public-"),
    (lambda _: read_public("x", "here"), ConfigError, "here: expected stoker-public-"),
    (lambda _: read_public(PUBLIC, "here"), ConfigError, "here: expected stoker-public-"),
    (lambda _: read_public(PUBLIC + "é" * 48, "here"), ConfigError,
     "here: expected stoker-public-"),
    (lambda _: read_public(PUBLIC + " " * 48, "here"), ConfigError,
     "here: expected stoker-public-"),
    (lambda _: read_public("\0", "here"), ConfigError, "here: expected stoker-public-"),
    (lambda folder: read_clients(written(folder, f"{ONE}\n"), "clients"), ConfigError,
     "line 1: expected a public key and a name, got 1 words"),
    (lambda folder: read_clients(written(folder, f"{ONE} a b\n"), "clients"), ConfigError,
     "line 1: expected a public key and a name, got 3 words"),
    (lambda folder: read_clients(written(folder, f"{ONE} a\n\n{ONE} b\n"), "clients"), ConfigError,
     "line 3: expected each key once, but that of 'b' is in line 1"),
    (lambda folder: read_clients(written(folder, f"{ONE} a\n{TWO} a\n"), "clients"), ConfigError,
     "line 2: expected each name once, but that of 'a' is in line 1"),
    (lambda folder: read_clients(written(folder, f"alice {ONE}\n"), "clients"), ConfigError,
     "line 1: expected stoker-public- and 48 characters"),
    (lambda folder: public_key_of(written(folder, "# none\n"), "daemon_key"), ConfigError,
     "got 0 lines"),
    (lambda folder: read_secret_file(written(folder, ""), "key"), ConfigError, "got 0 lines"),
    (lambda folder: read_secret_file(written(folder, ONE), "key"), ConfigError, "got a public one"),
    (lambda folder: read_secret_file(written(folder, SECRET_LINE * 2), "key"), ConfigError,
     "2 lines"),
    (lambda folder: read_secret_file(written(folder, b"\xff\xfe\0"), "key"), ConfigError,
     "expected text"),
    (lambda folder: read_secret_file(written(folder, b"#" * (2**20 + 1)), "key"), ConfigError,
     "expected at most 1048576 bytes, got a larger file"),
    (lambda folder: read_secret_file(folder, "key"), ConfigError,
     "expected a regular file, got a folder"),
    (lambda folder: read_secret_file("/dev/null", "key"), ConfigError,
     "/dev/null: expected a regular file, got a device"),
    (lambda folder: read_secret_file(folder / "nothing", "key"), ConfigError,
     "/nothing: No such file or directory; make keys with: stoker keygen FILE"),
    # Outputs, and their shapes in a slot
    (lambda _: batch_layout(slot_layout((VARIED,), 2), {"x": (4,)}), UsageError,
     "'x': expected rows of at most (4, 4) in a slot, got"),
    (lambda _: batch_layout(slot_layout((VARIED,), 2), {"x": (5, 4)}), UsageError,
     "'x': expected rows of at most (4, 4) in a slot, got"),
    (lambda _: batch_layout(slot_layout((VARIED,), 2), {"x": (4, 5)}), UsageError,
     "'x': expected rows of at most (4, 4) in a slot, got"),
    (lambda _: batch_layout(slot_layout((VARIED,), 2), {"x": (4, 4, 1)}), UsageError,
     "'x': expected rows of at most (4, 4) in a slot, got"),
    (lambda _: batch_layout(slot_layout((VARIED,), 2), {"x": (-1, 4)}), UsageError,
     "'x': expected rows of at most (4, 4) in a slot, got"),
    (lambda _: told_shapes((VARIED, Output("y", "uint8", (4,))), [(1, 1), (2, 2)]), UsageError,
     "expected one shape for each of the outputs ['x'], got 2"),
    (lambda _: check_outputs((Output("a", "uint8", ()),) * 2), UsageError,
     "'a': the name is reserved"),
    (lambda _: check_outputs((Output("index", "int64", ()),)), UsageError,
     "'index': the name is reserved or used twice"),
    (lambda _: check_outputs((Output("a", "complex64", ()),)), UsageError,
     "'a': expected a dtype among bool, uint8"),
    (lambda _: check_outputs((Output("a", "uint8", (3, 0)),)), UsageError,
     "'a': expected a shape with sides of at least 1, got (3, 0)"),
    (lambda _: check_outputs(tuple(Output(f"o{n}", "uint8", ()) for n in range(257))), UsageError,
     "at most 256 outputs, got 257"),
    (lambda _: check_outputs((Output(*ROW, "tower", (0,)),)), UsageError,
     "form 'tower' with varying sides"),
    (lambda _: check_outputs((Output(*ROW, "pad", ()),)), UsageError,
     "form 'pad' with varying sides ()"),
    (lambda _: check_outputs((Output(*ROW, "stack", (3,)),)), UsageError,
     "with varying sides (3,) of (4, 4, 3)"),
    (lambda _: check_outputs((Output(*ROW, "list", (1, 0)),)), UsageError,
     "with varying sides (1, 0)"),
    (lambda _: check_outputs((Output(*ROW, "ragged", (1,)),)), UsageError,
     "for a ragged output the first ones"),
    (lambda _: check_outputs((Output(*ROW, "pad", (0, 1)),)), UsageError,
     "delivered as x.size ... got none"),
    (lambda _: check_outputs((Output("b", "uint32", (3, 5), "boxes", BOX),)), UsageError,
     "do not fit uint32"),
    (lambda _: check_outputs((Output("b", "int32", (3, 6), "boxes", BOX),)), UsageError,
     "do not fit int32"),
    (lambda _: check_outputs((Output("b", "uint32", (3, 6), "boxes", BOX),)), UsageError,
     "no other output ... got none"),
    (lambda _: check_outputs((*LIST, Output("x.left", "int64", ()))), UsageError,
     "got x.size, x.left"),
    (lambda _: check_outputs((*BOXES, Output("b.label", "int64", ()))), UsageError,
     "got b.count, b.label"),
    (lambda _: spread_boxes((2, 3, 5), [1, 1]), ProtocolError,
     "expected (2, bound, 6) uint32, got (2, 3, 5)"),
    (lambda _: spread_boxes((3, 3, 6), [1, 1]), ProtocolError, "expected (2, bound, 6)"),
    (lambda _: spread_boxes((2, 6), [1, 1]), ProtocolError,
     "expected (2, bound, 6) uint32, got (2, 6)"),
    (lambda _: spread_boxes((2, 3, 6), [1, 4]), ProtocolError,
     "expected 0 to 3 items per row, got 1 to 4"),
    (lambda _: spread_boxes((2, 3, 6), [-1, 2]), ProtocolError,
     "expected 0 to 3 items per row, got -1 to 2"),
    # StreamSpec, its canonical form, and shares of hosts
    (lambda _: canonical_bytes(math.nan), ValueError, "expected a finite float, got nan"),
    (lambda _: canonical_bytes([math.inf]), ValueError, "expected a finite float, got inf"),
    (lambda _: canonical_bytes({"$f64": "0"}), ValueError,
     "keys that begin with '$' are reserved, got '$f64'"),
    (lambda _: canonical_bytes({1: 2}), TypeError, "expected text keys, got 1"),
    (lambda _: canonical_bytes({"a": {1, 2}}), TypeError, "str, list or dict, got set"),
    (lambda _: canonical_bytes(b""), TypeError, "got bytes"),
    (lambda _: HostShare([], 0), UsageError, "expected 1 to 64 different keys of daemons, got 0"),
    (lambda _: HostShare(list(range(65)), 0), UsageError, "got 65, of which 65 differ"),
    (lambda _: HostShare([7, 7], 0), UsageError, "got 2, of which 1 differ"),
    (lambda _: HostShare([7, 8], 2), UsageError, "host: expected 0 to 1, got 2"),
    (lambda _: stream(seed=-1), UsageError,
     "seed: expected an integer from 0 to 18446744073709551615, got -1"),
    (lambda _: stream(seed=2**64), UsageError, "seed: expected an integer from 0"),
    (lambda _: stream(seed=True), UsageError, "seed: expected an integer ... got True"),
    (lambda _: stream(batch_size=0), UsageError,
     "batch_size: expected an integer from 1 to 16777216, got 0"),
    (lambda _: stream(views=2**16), UsageError, "views: expected an integer from 1 to 65535"),
    (lambda _: stream(dataset_rows=0), UsageError, "dataset_rows: expected an integer from 1"),
    (lambda _: stream(total_epochs=0), UsageError, "total_epochs: expected an integer from 1"),
    (lambda _: stream(freeze={"crop": -1}), UsageError,
     "freeze['crop']: expected an integer from 0"),
    (lambda _: stream(freeze={"$crop": 1}), UsageError,
     "freeze: expected a stream name that does not begin with '$', got '$crop'"),
    (lambda _: stream(dataset="photos"), UsageError,
     "dataset: expected <level>:<32 hex digits>, got 'photos'"),
    (lambda _: stream(pipeline="B" * 32), UsageError,
     "pipeline: expected <32 hex digits>, got 'BBB"),
    (lambda _: stream(exclude=""), UsageError, "exclude: expected <count>:<32 hex digits>, got ''"),
    (lambda _: stream(exclude="0:" + "b" * 32), UsageError,
     "exclude: expected <count>:<32 hex digits>, got '0:bbb"),
    (lambda _: stream(exclude=f"9:{HEX}", dataset_rows=9), UsageError,
     "exclude: the list has 9 ids and the dataset has 9 samples, so none is left"),
    (lambda _: stream(buckets="x"), UsageError, "buckets: expected <32 hex digits>, got 'x'"),
    (lambda _: stream(order=OrderSpec(subset="x")), UsageError,
     "order.subset: expected <32 hex digits>"),
    (lambda _: stream(order=OrderSpec(weights="x")), UsageError,
     "order.weights: expected <32 hex digits>"),
    (lambda _: stream(order=OrderSpec(block=-1)), UsageError,
     "order.block: expected an integer from 0"),
    (lambda _: stream(order=OrderSpec(seed=2**64)), UsageError,
     "order.seed: expected an integer from 0 to"),
    (lambda _: stream_of_data(rank=3), UsageError, "StreamSpec: ... unknown field `rank`"),
    (lambda _: stream_of_data(tail="keep"), UsageError,
     "StreamSpec: ... Invalid enum value 'keep' - at `$.tail`"),
    (lambda _: stream_of_data(seed="7"), UsageError,
     "StreamSpec: ... Expected `int`, got `str` - at `$.seed`"),
    (lambda _: stream_of_data(freeze={"a": "step"}), UsageError, "StreamSpec: ... at `$.freeze"),
    (lambda _: stream_of_data(order={"kind": "none"}), UsageError,
     "StreamSpec: ... at `$.order.kind`"),
    # Subset
    (lambda _: Subset([]), UsageError, "expected at least one sample id, got none"),
    (lambda _: Subset([4, 1, 4]), UsageError,
     "sample 4 comes twice; an epoch visits every sample once"),
    (lambda _: Subset(np.array([4, 1, 4])), UsageError, "sample 4 comes twice"),
    (lambda _: Subset([1, MAX_SUBSET_ROWS]), UsageError,
     "expected ids below 2**24, got 16777216; of a larger dataset"),
    (lambda _: Subset(np.array([1, MAX_SUBSET_ROWS])), UsageError,
     "expected ids from 0 to 2**24 - 1, got 1 to 16777216"),
    (lambda _: Subset(np.array([True, False])), UsageError,
     "got an array of bool: give np.flatnonzero(mask)"),
    (lambda _: Subset([True]), UsageError, "expected sample ids, integers from 0, got True"),
    (lambda _: Subset([1.0]), UsageError, "expected sample ids, integers from 0, got 1.0"),
    (lambda _: Subset(["7"]), UsageError, "expected sample ids, integers from 0, got '7'"),
    (lambda _: Subset([-1]), UsageError, "expected sample ids from 0"),
    (lambda _: Subset([5, 1], sort=False), UsageError,
     "not ascending, and with shuffle=False ... sorted(ids)"),
    (lambda _: Subset.from_bytes(b"no zlib"), UsageError,
     "subset: expected a bitmap of ids compressed with zlib"),
    (lambda _: Subset.from_bytes(zlib.compress(b"\x01")[:-2]), UsageError,
     "subset: expected a bitmap of at most"),
    (lambda _: Subset.from_bytes(zlib.compress(b"\x01") + b"more"), UsageError,
     "subset: expected a bitmap of at most"),
    (lambda _: Subset.from_bytes(zlib.compress(bytes(2**24))), UsageError,
     "subset: expected a bitmap of at most 2097152 bytes"),
    (lambda _: Subset.from_bytes(zlib.compress(b"")), UsageError,
     "subset: expected at least one sample id"),
    (lambda _: Subset.from_bytes(zlib.compress(bytes(9))), UsageError,
     "subset: expected at least one sample id"),
    (lambda _: Subset([1, 5]).excluded(5), UsageError,
     "has 5 samples, ids 0 to 4; the list names 5: does it"),
    (lambda _: Subset([1, 5]).excluded(MAX_SUBSET_ROWS + 1), UsageError,
     "a dataset of at most 2**24 samples, got"),
    (lambda _: Subset([1, 5]).without(Excluded([5, 1])), UsageError,
     "leaves out all of its samples"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[row[-1][:60] for row in ERRORS])
def test_errors(tmp_path, call, error, message) -> None:
    with pytest.raises(error) as caught:
        call(tmp_path)
    assert all(part in str(caught.value) for part in message.split(" ... "))
