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


ARGUMENTS = [
    ({"batch_size": None}, "batch_size=None, global_batch_size=None: expected exactly one"),
    ({"batch_size": 0}, "batch_size=0: expected an integer from 1 to 16777216"),
    ({"batch_size": 2.0}, "batch_size=2.0: expected an integer .* got float"),
    ({"batch_size": True}, "batch_size=True: expected an integer .* got bool"),
    ({"batchsize": 1}, "did you mean 'batch_size'"),
    ({"block_size": 9}, r"no argument 'block_size': use shuffle=Shuffle"),
    ({"buckets": {"max_area": 99}},
     r"expected stoker.client.Buckets, for example Buckets\("),
    ({"class_weight": {}}, "no argument 'class_weight': use weights={class: weight}"),
    ({"collate_fn": 1}, "no argument 'collate_fn': use outputs.pad"),
    ({"dataset": "d" * 257}, "dataset='d.*expected text of at most 256 characters"),
    ({"device": "tpu"}, "device='tpu': expected 'cpu', 'numpy' or 'cuda"),
    ({"device": None}, "device=None: expected 'cpu', 'numpy' or 'cuda"),
    ({"device": "meta"}, "device='meta': expected 'cpu', 'numpy' or 'cuda"),
    ({"device": "cuda"}, "device='cuda': torch finds no CUDA device"),
    ({"exclude": 5}, "exclude=5: expected sample ids, or the path of a file that lists them"),
    ({"exclude": [3, -1]}, "exclude: expected sample ids from 0, below .*, got -1"),
    ({"exclude": range(2**17 + 1)}, "exclude: expected at most 131072 ids, got 131073"),
    ({"exclude": "/nowhere/bad.txt"}, "exclude: cannot read /nowhere/bad.txt: No such"),
    ({"freeze": {"crop": -1}}, r"freeze\['crop'\]=-1: expected .* or \"epoch\""),
    ({"freeze": {"crop": "step"}}, r"freeze\['crop'\]='step': expected .* or \"epoch\""),
    ({"freeze": {3: 1}}, "freeze=3: expected text of at most 256"),
    ({"global_batch_size": 8}, "batch_size=4, global_batch_size=8: expected exactly one"),
    ({"batch_size": None, "global_batch_size": 2, "rank": 0, "world_size": 3},
     "global_batch_size=2: 3 ranks need at least one position each; give at least 3"),
    ({"group": ""}, "group='': expected a name that the members of the group share, or None"),
    ({"group": 7}, "group=7: expected text of at most 256 characters"),
    ({"group": b"sweep"}, "group=b'sweep': expected text of at most 256 characters"),
    ({"group": "g", "group_size": 0}, r"Group\.size=0: expected an integer from 1 to 64"),
    ({"group": "g", "group_size": 65}, r"Group\.size=65: expected an integer from 1 to 64"),
    ({"group": "g", "group_size": "4"}, r"Group\.size='4': expected an integer from 1 to 64"),
    ({"group": "g" * 257}, "group='g.*expected text of at most 256 characters"),
    ({"groupe": 2}, "did you mean 'group'"),
    ({"indices": [3]}, "Loader has no argument 'indices': use subset="),
    ({"last": "keep"}, "last: expected one of 'drop', 'short', 'pad', got 'keep'"),
    ({"last": "drop", "drop_last": False}, "contradicts drop_last=False"),
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
    ({"mix": {"a": 1}, "exclude": {"b": [1]}},
     "exclude: expected names of the datasets of mix, 'a'; got 'b'"),
    ({"mix": {str(n): 1 for n in range(65)}}, "mix: expected 1 to 64 datasets, got 65"),
    ({"mode": "forks", "group": "g"}, "Group.mode='forks': expected one of 'mirror', 'fork'"),
    ({"num_workers": 1}, "no argument 'num_workers': use workers="),
    ({"on_error": "skip"}, "on_error='skip': expected one of 'raise', 'replace', 'mask'"),
    ({"params": "all"}, "params='all': expected True or False"),
    ({"persistent_workers": 1}, "'persistent_workers': leave it out: workers live as long as"),
    ({"pin_memory": 1}, "no argument 'pin_memory': use device='cuda'"),
    ({"pipeline": {"a": "train"}}, "pipeline=.* expected the name of a pipeline"),
    ({"pipeline": ""}, "pipeline='': expected a name known to the daemon"),
    ({"pipeline": 7}, "pipeline=7: expected the name of a pipeline at the daemon"),
    ({"pipeline": Huge()}, "the pipeline's graph has .* at most 1048576 can be sent"),
    ({"prefetch": 0}, "prefetch=0: expected an integer from 1 to 4096"),
    ({"rank": 1}, "rank=1, world_size=None: expected both or neither"),
    ({"rank": 2, "world_size": 2}, "rank=2, world_size=2: .* 0 <= rank < world_size"),
    ({"rank": "0", "world_size": 2}, "rank='0', world_size=2: expected integers"),
    ({"rank": 0, "world_size": 2**20 + 1}, "0 <= rank < world_size <= 1048576"),
    ({"reconnect": 60}, r"'reconnect_s'\? Write connection=Connection\(rec"),
    *[
        ({"reconnect_s": given}, "reconnect_s=.*: expected a positive number of seconds")
        for given in (0, -1.0, True, "60", math.inf, math.nan)
    ],
    ({"sampler": 1}, "no argument 'sampler': use subset=, weights= and shuffle="),
    ({"seed": -1}, "seed=-1: expected an integer from 0 to 18446744073709551615"),
    ({"seed": 2**64}, "seed=18446744073709551616: expected an integer from 0"),
    ({"shuffle": "false"}, "shuffle='false': expected True or False"),
    ({"shuffle": None}, "shuffle=None: expected True or False"),
    ({"shuffle": "block"},
     "shuffle='block': expected True or False; for a block shuffle give Shuffle"),
    ({"shuffle_block_size": 0}, "Shuffle.block_size=0: expected an integer from 1 .* or None"),
    ({"shuffle_block_size": 5.0}, r"Shuffle\.block_size=5\.0: .* got float"),
    ({"shuffle_block_size": 9, "shuffle": False},
     r"Shuffle.block_size=.* and shuffle=False cannot be combined, because blocks of"),
    ({"shuffle_seed": -1}, "Shuffle.seed=-1: expected an integer from 0 .* or None"),
    ({"split": 1}, "no argument 'split': use subset='NAME'"),
    ({"subset": 5}, "subset=5: expected sample ids, or the path of a file that lists them"),
    ({"subset": []}, "subset: expected at least one sample id, got none"),
    ({"subset": [3, -1]}, "subset: expected sample ids from 0, below .*, got -1"),
    ({"subset": [3, 3]}, "subset: sample 3 comes twice; .* list each id once, and use views="),
    ({"subset": [3, 1], "shuffle": False}, r"not ascending, .*: give sorted\(ids\)"),
    ({"subset": [2**24]}, "subset: expected ids below .*; of a larger dataset, pack"),
    ({"subset": "/nowhere/val.txt"}, "subset: cannot read /nowhere/val.txt: No such"),
    ({"total_epochs": 0}, "total_epochs=0: expected an integer from 1"),
    *[
        ({"verify": given}, f"verify={given!r}: expected True or False")
        for given in ("yes", 2, None)
    ],
    *[
        ({"name": given}, "name=.*: expected 1 to 64 printable characters, or None")
        for given in ("", "n" * 65, "a\nb", "\x1b[31m", b"run", 17)
    ],
    ({"batch_size": np.int64(4), "seed": np.uint64(2**64 - 1), "views": 0}, "^views=0: exp"),
    ({"views": 65536}, "views=65536: expected an integer from 1 to 65535"),
    ({"weight": [1]}, r"Loader has no argument 'weight'; did you mean 'weights'\?"),
    ({"weights": itertools.repeat(1)}, r"weights: expected 1 to 2\*\*24 numbers, .* 16777217"),
    ({"weights": 5}, "weights=5: expected one number per sample .* name of a numeric field"),
    ({"weights": []}, "weights: expected 1 to 2\\*\\*24 numbers, one per sample, got 0"),
    ({"weights": [1, -2, math.nan]}, "from 0, got -2.0 for sample 1 and 1 more; 0 leaves"),
    ({"weights": [1, math.inf]}, "expected finite numbers from 0, got inf for sample 1; 0"),
    ({"weights": [0, 0]}, "weights: all 2 weights are 0, so no sample is left"),
    ({"weights": [True, False]}, r"array of bool: give subset=np.flatnonzero\(mask\)"),
    ({"weights": ["cat", "dog"]}, "one number per sample, got an array of <U3 of shape"),
    ({"weights": [[1], [2]]}, r"got an array of int64 of shape \(2, 1\)"),
    ({"weights": [[1], [2, 3]]}, "weights: expected one number per sample: .*inhomogeneous"),
    ({"weights": {}}, "weights: expected weights of 1 to 16384 classes, got 0"),
    ({"weights": {"cat": -1}}, r"weights\['cat'\]: expected a finite number from 0, got -1"),
    ({"weights": {"cat": "often"}}, r"weights\['cat'\]: expected a finite number .*'often'"),
    ({"weights": {0.5: 1}}, "weights: expected names or numbers of classes, got 0.5"),
    ({"weights": {"cat": 0, 3: 0}}, "weights: the weights of all 2 classes are 0"),
    ({"weights": "/nowhere/w.npy"}, "cannot read /nowhere/w.npy: No such file .* a .npy array"),
    ({"weights": np.random.default_rng(0).random(300_000)},
     "weights: 300000 weights, most of them different, .* store them as a numeric field"),
    ({
         "weights": np.random.default_rng(0).random(240_000),
         "subset": np.flatnonzero(np.unpackbits(np.frombuffer(HALF, np.uint8))),
         "pipeline": Large(),
     },
     r"room for 4194304 bytes, .* together: pipeline=1\d+, subset=2\d+, weights=1\d+; name"),
    ({"workers": 2}, "workers=2: the daemon at ipc:///nowhere/stoker.sock sets its own"),
    ({"zzz": 1}, "has no argument 'zzz'$"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "expected"), ARGUMENTS, ids=[message[:60] for _, message in ARGUMENTS]
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


WHERE = [
    ("udp://host:7470", {}, UsageError,
     "address 'udp://host:7470': expected ipc:///absolute/path, tcp://HOST"),
    ("ipc://relative.sock", {}, UsageError, "expected an absolute path after ipc://"),
    ("ipc:///" + "d" * 105, {}, UsageError,
     "a Unix socket takes at most 107; choose a shorter directory"),
    *[
        (address, {}, UsageError, "expected tcp://HOST:PORT")
        for address in (
            "tcp://", "tcp://host", "tcp://host:", "tcp://host:0", "tcp://host:65535",
            "tcp://:7470", "tcp://host:7470/x", "tcp://a b:7470", "tcp://::1:7470",
        )
    ],
    (len, {}, UsageError, "or a Directory"),
    ([], {}, UsageError, "expected 1 to 64 addresses of daemons, got 0"),
    ([f"ipc:///{n}" for n in range(65)], {}, UsageError,
     "expected 1 to 64 addresses of daemons, got 65"),
    (["ipc:///a", "ipc:///a"], {}, UsageError, "expected each address once, got ipc:///a 2 times"),
    (["ipc:///a", "/data/packed"], {}, UsageError,
     "got '/data/packed'; the path of a dataset works only"),
    (["ipc:///a"], {"workers": 2}, UsageError,
     "workers=2: the daemon at ipc:///a sets its own number"),
    *[
        (["ipc:///a", "ipc:///b"], {key: "file"}, UsageError,
         f"{key}=: keys work only .* this host: ipc:///a, ipc")
        for key in ("key", "daemon_key")
    ],
    ("ipc:/run/x.sock", {}, DatasetError, r"; the address of a daemon begins with ipc:///$"),
    ("~/photos", {}, DatasetError, r"dataset at '~/photos'; .*; ~ is not expanded here"),
    ("{folder}/photos", {}, DatasetError, r"there is no dataset at .*/photos.; expected a"),
    ("{folder}/empty", {}, DatasetError, "/empty has no manifest.json: it is not a dataset"),
    ("{folder}/packed", {"dataset": "photos"}, UsageError,
     "because the path already names the dataset; leave dataset out"),
    ("{folder}/packed", {"pipeline": "train"}, UsageError, "pipeline='train': expected 'module:"),
    ("{folder}/packed", {"pipeline": "__main__:train"}, UsageError,
     "cannot import your script; move the pipeline into a"),
    ("{folder}/packed", {"views": 0}, UsageError, "views=0: expected"),
    *[
        ("{folder}/packed", {"workers": workers}, UsageError,
         f"workers={workers}: expected an integer from 1 to 1024, or None")
        for workers in (0, 1025)
    ],
]  # fmt: skip
"""(Address or path, other options, error, message)."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """ "packed" looks like a dataset."""
    folder = tmp_path_factory.mktemp("arguments")
    for name in ("empty", "packed"):
        (folder / name).mkdir()
    (folder / "packed" / "manifest.json").touch()
    return folder


@pytest.mark.parametrize(
    ("where", "options", "error", "message"), WHERE, ids=[message[:60] for *_, message in WHERE]
)
def test_addresses_and_paths(folder, where, options, error, message) -> None:
    place = where.format(folder=folder) if isinstance(where, str) else where
    with pytest.raises(error, match=message):
        Loader(place, **grouped(**{"pipeline": "m:train", "batch_size": 4, **options}))


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
