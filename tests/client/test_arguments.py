"""Arguments that cannot be: refused before anybody is asked, in the words of the parameters."""

import dataclasses
import itertools
import math
import sys
import types

import numpy as np
import pytest
from loading import grouped

from stoker.client import Connection, Group, Loader, Shuffle
from stoker.client.ranks.rank_numbers import resolve_ranks
from stoker.protocol.errors import DatasetError, UsageError
from stoker.protocol.request.stream_arguments import pipeline_data


class Large:
    def graph(self):
        return self

    def to_data(self):
        return {"nodes": ["x" * 1000] * 1020}


ADDRESS = "ipc:///nowhere/stoker.sock"
GOOD = {"pipeline": "train", "batch_size": 4}
HALF = np.random.default_rng(0).bytes(2**21)
"""Bits: about half of the ids that a subset can name."""


class Huge:
    def graph(self):
        return self

    def to_data(self):
        return {"nodes": ["x" * 1000] * 1100}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"batch_size": None}, "batch_size=None, global_batch_size=None: expected exactly one"),
        ({"global_batch_size": 8}, "batch_size=4, global_batch_size=8: expected exactly one"),
        ({"batch_size": 0}, "batch_size=0: expected an integer from 1 to 16777216"),
        ({"batch_size": 2.0}, "batch_size=2.0: expected an integer .* got float"),
        ({"batch_size": True}, "batch_size=True: expected an integer .* got bool"),
        (
            {"batch_size": None, "global_batch_size": 2, "rank": 0, "world_size": 3},
            "global_batch_size=2: 3 ranks need at least one position each; give at least 3",
        ),
        ({"batch_size": np.int64(4), "seed": np.uint64(2**64 - 1), "views": 0}, "^views=0: exp"),
        ({"seed": -1}, "seed=-1: expected an integer from 0 to 18446744073709551615"),
        ({"seed": 2**64}, "seed=18446744073709551616: expected an integer from 0"),
        ({"prefetch": 0}, "prefetch=0: expected an integer from 1 to 4096"),
        ({"shuffle": "false"}, "shuffle='false': expected True or False"),
        ({"mix": []}, r"mix=\[\]: expected names of datasets and their ratios, such as"),
        ({"mix": {}}, "mix={}: expected names of datasets and their ratios"),
        ({"mix": {"a": 0}}, r"mix\['a'\]=0: expected a positive number; to skip a dataset"),
        ({"mix": {"a": math.nan}}, r"mix\['a'\]=nan: expected a positive number"),
        ({"mix": {"a": "0.7"}}, r"mix\['a'\]='0.7': expected a positive number"),
        ({"mix": {"a": True}}, r"mix\['a'\]=True: expected a positive number"),
        ({"mix": {7: 1}}, "mix=7: expected text of at most 256 characters"),
        ({"mix": {"a": 1}, "pipeline": {"b": "train"}}, "one for each dataset of mix, a; got b"),
        ({"mix": {"a": 1}, "dataset": "a"}, "mix and dataset: expected only one of them"),
        ({"mix": {"a": 1}, "subset": [1, 2]}, r"subset: .* several datasets, .* {'a': \.\.\.}"),
        ({"mix": {"a": 1}, "weights": np.ones(3)}, "weights: the samples of a mixture are of sev"),
        ({"mix": {"a": 1}, "exclude": "bad.txt"}, "exclude: the samples of a mixture are of sev"),
        (
            {"mix": {"a": 1}, "exclude": {"b": [1]}},
            "exclude: expected names of the datasets of mix, 'a'; got 'b'",
        ),
        ({"mix": {str(n): 1 for n in range(65)}}, "mix: expected 1 to 64 datasets, got 65"),
        ({"pipeline": {"a": "train"}}, "pipeline=.* expected the name of a pipeline"),
        ({"shuffle": "block"}, "shuffle='block': expected True or False"),
        ({"shuffle": None}, "shuffle=None: expected True or False"),
        ({"params": "all"}, "params='all': expected True or False"),
        ({"views": 65536}, "views=65536: expected an integer from 1 to 65535"),
        ({"total_epochs": 0}, "total_epochs=0: expected an integer from 1"),
        ({"on_error": "skip"}, "on_error='skip': expected one of 'raise', 'replace', 'mask'"),
        ({"exclude": 5}, "exclude=5: expected sample ids, or the path of a file that lists them"),
        ({"subset": 5}, "subset=5: expected sample ids, or the path of a file that lists them"),
        ({"subset": []}, "subset: expected at least one sample id, got none"),
        ({"subset": [3, -1]}, "subset: expected sample ids from 0, below .*, got -1"),
        ({"subset": [3, 3]}, "subset: sample 3 comes twice; .* list each id once, and use views="),
        (
            {"subset": [3, 1], "shuffle": False},
            r"not ascending, .*: give sorted\(ids\)",
        ),
        (
            {"subset": [2**24]},
            "subset: expected ids below .*; of a larger dataset, pack",
        ),
        ({"subset": "/nowhere/val.txt"}, "subset: cannot read /nowhere/val.txt: No such"),
        ({"shuffle": "block"}, "shuffle='block': .*; for a block shuffle give Shuffle"),
        ({"shuffle_block_size": 0}, "Shuffle.block_size=0: expected an integer from 1 .* or None"),
        (
            {"shuffle_block_size": 5.0},
            r"Shuffle\.block_size=5\.0: .* got float",
        ),
        (
            {"shuffle_block_size": 9, "shuffle": False},
            r"Shuffle.block_size=.* and shuffle=False cannot be combined, because blocks of",
        ),
        ({"shuffle_seed": -1}, "Shuffle.seed=-1: expected an integer from 0 .* or None"),
        ({"mode": "forks", "group": "g"}, "Group.mode='forks': expected one of 'mirror', 'fork'"),
        ({"block_size": 9}, r"no argument 'block_size': use shuffle=Shuffle"),
        (
            {"weights": itertools.repeat(1)},
            r"weights: expected 1 to 2\*\*24 numbers, .* 16777217",
        ),
        (
            {"weights": 5},
            "weights=5: expected one number per sample .* name of a numeric field",
        ),
        ({"weights": []}, "weights: expected 1 to 2\\*\\*24 numbers, one per sample, got 0"),
        ({"weights": [1, -2, math.nan]}, "from 0, got -2.0 for sample 1 and 1 more; 0 leaves"),
        ({"weights": [1, math.inf]}, "expected finite numbers from 0, got inf for sample 1; 0"),
        ({"weights": [0, 0]}, "weights: all 2 weights are 0, so no sample is left"),
        ({"weights": [True, False]}, r"array of bool: give subset=np.flatnonzero\(mask\)"),
        ({"weights": ["cat", "dog"]}, "one number per sample, got an array of <U3 of shape"),
        (
            {"weights": [[1], [2]]},
            r"got an array of int64 of shape \(2, 1\)",
        ),
        ({"weights": [[1], [2, 3]]}, "weights: expected one number per sample: .*inhomogeneous"),
        ({"weights": {}}, "weights: expected weights of 1 to 16384 classes, got 0"),
        ({"weights": {"cat": -1}}, r"weights\['cat'\]: expected a finite number from 0, got -1"),
        ({"weights": {"cat": "often"}}, r"weights\['cat'\]: expected a finite number .*'often'"),
        ({"weights": {0.5: 1}}, "weights: expected names or numbers of classes, got 0.5"),
        ({"weights": {"cat": 0, 3: 0}}, "weights: the weights of all 2 classes are 0"),
        ({"weights": "/nowhere/w.npy"}, "cannot read /nowhere/w.npy: No such file .* a .npy array"),
        (
            {"weights": np.random.default_rng(0).random(300_000)},
            "weights: 300000 weights, most of them different, .* store them as a numeric field",
        ),
        (
            {
                "weights": np.random.default_rng(0).random(240_000),
                "subset": np.flatnonzero(np.unpackbits(np.frombuffer(HALF, np.uint8))),
                "pipeline": Large(),
            },
            r"room for 4194304 bytes, .* together: pipeline=1\d+, subset=2\d+, weights=1\d+; name",
        ),
        (
            {"class_weight": {}},
            "no argument 'class_weight': use weights={class: weight}",
        ),
        ({"num_workers": 1}, "use workers="),
        ({"split": 1}, "use subset='NAME'"),
        ({"collate_fn": 1}, "outputs.pad"),
        ({"pin_memory": 1}, "device='cuda'"),
        ({"persistent_workers": 1}, "'persistent_workers': leave it out: workers live as long as"),
        ({"sampler": 1}, "use subset=, weights= and shuffle="),
        ({"batchsize": 1}, "did you mean 'batch_size'"),
        ({"zzz": 1}, "has no argument 'zzz'$"),
        ({"reconnect": 60}, r"'reconnect_s'\? Write connection=Connection\(rec"),
        *[
            ({"reconnect_s": given}, "reconnect_s=.*: expected a positive number of seconds")
            for given in (0, -1.0, True, "60", math.inf, math.nan)
        ],
        ({"last": "keep"}, "last: expected one of 'drop', 'short', 'pad', got 'keep'"),
        ({"last": "drop", "drop_last": False}, "contradicts drop_last=False"),
        *[
            ({"verify": given}, f"verify={given!r}: expected True or False")
            for given in ("yes", 2, None)
        ],
        ({"weight": [1]}, r"Loader has no argument 'weight'; did you mean 'weights'\?"),
        ({"indices": [3]}, "Loader has no argument 'indices': use subset="),
        ({"exclude": [3, -1]}, "exclude: expected sample ids from 0, below .*, got -1"),
        ({"exclude": range(2**17 + 1)}, "exclude: expected at most 131072 ids, got 131073"),
        ({"exclude": "/nowhere/bad.txt"}, "exclude: cannot read /nowhere/bad.txt: No such"),
        ({"freeze": {"crop": -1}}, r"freeze\['crop'\]=-1: expected .* or \"epoch\""),
        ({"freeze": {"crop": "step"}}, r"freeze\['crop'\]='step': expected .* or \"epoch\""),
        ({"freeze": {3: 1}}, "freeze=3: expected text of at most 256"),
        ({"group": ""}, "group="),
        ({"group": 7}, "group="),
        ({"group": b"sweep"}, "group="),
        ({"group": "g", "group_size": 0}, r"Group\.size=0: expected an integer from 1 to 64"),
        ({"group": "g", "group_size": 65}, r"Group\.size=65: expected an integer from 1 to 64"),
        ({"group": "g", "group_size": "4"}, r"Group\.size='4': expected an integer from 1 to 64"),
        ({"groupe": 2}, "did you mean 'group'"),
        ({"group": "g" * 257}, "group='g.*expected text of at most 256 characters"),
        ({"dataset": "d" * 257}, "dataset='d.*expected text of at most 256 characters"),
        ({"pipeline": ""}, "pipeline='': expected a name known to the daemon"),
        ({"pipeline": 7}, "pipeline=7: expected the name of a pipeline at the daemon"),
        ({"pipeline": Huge()}, "the pipeline's graph has .* at most 1048576 can be sent"),
        ({"rank": 1}, "rank=1, world_size=None: expected both or neither"),
        ({"rank": 2, "world_size": 2}, "rank=2, world_size=2: .* 0 <= rank < world_size"),
        ({"rank": "0", "world_size": 2}, "rank='0', world_size=2: expected integers"),
        ({"workers": 2}, "workers=2: the daemon at ipc:///nowhere/stoker.sock sets its own"),
        ({"device": "tpu"}, "device='tpu': expected 'cpu', 'numpy' or 'cuda"),
        ({"device": None}, "device=None: expected 'cpu', 'numpy' or 'cuda"),
        ({"device": "meta"}, "device='meta': expected 'cpu', 'numpy' or 'cuda"),
        ({"device": "cuda"}, "device='cuda': torch finds no CUDA device"),
    ],
)
def test_refused(arguments: dict, expected: str) -> None:
    if arguments.get("device") == "cuda":
        torch = pytest.importorskip("torch")
        if torch.cuda.is_available():
            pytest.skip("there is a CUDA device")
    with pytest.raises(UsageError, match=expected):
        Loader(ADDRESS, **grouped(**{**GOOD, **arguments}))


@pytest.mark.parametrize("record", [Connection, Group, Shuffle])
def test_a_field_of_a_record_as_an_argument(record: type) -> None:
    """The error says where it belongs."""
    argument = record.__name__.lower()
    old = {"seed": "shuffle_seed", "block_size": "shuffle_block_size", "size": "group_size"}
    fields = {field.name for field in dataclasses.fields(record)} - {"name", "samples"}
    for name in fields:
        given = old.get(name, name)
        expected = rf"no argument '{given}': use {argument}={record.__name__}\(.*{name}=\.\.\.\)"
        with pytest.raises(UsageError, match=expected):
            Loader(ADDRESS, **GOOD, **{given: 1})


@pytest.mark.parametrize(
    ("address", "options", "expected"),
    [
        ("udp://host:7470", {}, "address 'udp://host:7470': expected ipc:///absolute/path, tcp:"),
        ("ipc://relative.sock", {}, "expected an absolute path after ipc://"),
        ("ipc:///" + "d" * 105, {}, "a Unix socket takes at most 107; choose a shorter directory"),
        *[
            (address, {}, "expected tcp://HOST:PORT")
            for address in (
                "tcp://", "tcp://host", "tcp://host:", "tcp://host:0", "tcp://host:65535",
                "tcp://:7470", "tcp://host:7470/x", "tcp://a b:7470", "tcp://::1:7470",
            )
        ],
        (len, {}, "or a Directory"),
        ([], {}, "expected 1 to 64 addresses of daemons, got 0"),
        ([f"ipc:///{n}" for n in range(65)], {}, "expected 1 to 64 addresses of daemons, got 65"),
        (["ipc:///a", "ipc:///a"], {}, "expected each address once, got ipc:///a 2 times"),
        (["ipc:///a", "/data/packed"], {}, "got '/data/packed'; the path of a dataset works only"),
        (["ipc:///a"], {"workers": 2}, "workers=2: the daemon at ipc:///a sets its own number"),
        *[
            (["ipc:///a", "ipc:///b"], {key: "f"}, f"{key}=: keys work only .*: ipc:///a, ipc")
            for key in ("key", "daemon_key")
        ],
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_addresses(address: object, options: dict, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        Loader(address, **grouped(**{**GOOD, **options}))


def test_paths(tmp_path) -> None:
    missing = tmp_path / "photos"
    with pytest.raises(DatasetError, match=f"there is no dataset at .{missing}.; expected a"):
        Loader(missing, pipeline="m:train", batch_size=4)
    with pytest.raises(DatasetError, match=r"dataset at '~/photos'; .*; ~ is not expanded here"):
        Loader("~/photos", pipeline="m:train", batch_size=4)
    with pytest.raises(DatasetError, match=r"; the address of a daemon begins with ipc:///$"):
        Loader("ipc:/run/x.sock", pipeline="m:train", batch_size=4)
    with pytest.raises(DatasetError, match=f"{tmp_path} has no manifest.json: it is not a dataset"):
        Loader(tmp_path, pipeline="m:train", batch_size=4)
    (tmp_path / "manifest.json").touch()
    for arguments, expected in [
        (
            {"dataset": "photos"},
            "because the path already names the dataset; leave dataset out",
        ),
        ({"pipeline": "train"}, "pipeline='train': expected 'module:"),
        ({"pipeline": "__main__:train"}, "cannot import your script; move the pipeline into a"),
        ({"workers": 0}, "workers=0: expected an integer from 1 to 1024, or None"),
        ({"workers": 1025}, "workers=1025: expected an integer from 1 to 1024, or None"),
        ({"views": 0}, "views=0: expected"),
    ]:
        with pytest.raises(UsageError, match=expected):
            Loader(tmp_path, **grouped(**{"pipeline": "m:train", "batch_size": 4, **arguments}))


def test_a_name_of_a_pipeline_has_no_graph() -> None:
    assert pipeline_data("train") == ("train", b"")


def test_ranks_from_torch_distributed(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_rank=lambda: 3,
        get_world_size=lambda: 8,
    )
    monkeypatch.setitem(sys.modules, "torch.distributed", module)
    assert resolve_ranks(None, None) == (3, 8)
    assert resolve_ranks(1, 2) == (1, 2), "arguments win"
    module.is_initialized = lambda: False
    assert resolve_ranks(None, None) == (0, 1)


def test_a_launched_job_that_forgot_to_initialize_is_warned(monkeypatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.warns(UserWarning, match="WORLD_SIZE=4 is set but torch.distributed is not"):
        assert resolve_ranks(None, None) == (0, 1)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert resolve_ranks(None, None) == (0, 1)
