"""A batch is a mapping that its users, torch and JAX can copy, convert and rebuild."""

import copy
import gc
import json
import pickle
import types
from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch.utils import _pytree as torch_trees
from torch.utils.data import default_collate, default_convert

from stoker.client import Batch, Loader, Ragged
from stoker.client.batches import batch_trees
from stoker.client.batches.batch import OF_ORIGIN
from stoker.pipeline import Graph, pipeline, pipelines
from stoker.protocol.errors import BuildError, UsageError
from stoker.protocol.output_forms import RaggedArray
from stoker.protocol.slot_layout import RESERVED

NAMES = ["image", "label", "index", "requested", "valid"]


@pytest.fixture
def load(daemon):
    """load(**options) -> a Loader, closed at the end; its images are in the slot."""
    made = []

    def make(**options):
        made.append(Loader(daemon.address, pipeline="train", batch_size=16, **options))
        return made[-1]

    yield make
    for loader in made:
        loader.close()


def items():
    """Boxes and rows of different shapes, two rows each."""
    offsets = torch.tensor([0, 1, 3])
    fields = {"label": torch.arange(3), "values": torch.ones(3), "offsets": torch.ones(3)}
    boxes = Ragged("xyxy", torch.arange(12.0).reshape(3, 4), offsets, fields)
    return boxes, RaggedArray(torch.arange(3.0), offsets, torch.tensor([[1], [2]]))


def test_it_is_a_mapping(load):
    batch = next(iter(load()))
    assert isinstance(batch, Mapping)
    assert list(batch) == list(batch.keys()) == [*dict(batch)] == [*{**batch}] == NAMES
    assert list(dict(**batch)) == NAMES
    assert [*map(id, batch.values())] == [id(batch[name]) for name in NAMES]
    assert ("image" in batch, "epoch" in batch, len(batch)) == (True, False, 5)
    assert batch.get("image") is batch.image
    assert batch.get("mask", 3) == 3
    assert batch == dict(batch)
    assert {"image", "label", "index", "epoch", "to"} <= set(dir(batch))
    match batch:
        case {"image": image, "label": _, **rest}:
            assert image is batch.image
            assert list(rest) == NAMES[2:]


def test_it_is_rebuilt_from_entries(load):
    batch = next(iter(load()))
    pairs = [(name, value + 1 if name == "image" else value) for name, value in batch.items()]
    for rebuilt in (type(batch)(dict(pairs)), type(batch)(pair for pair in pairs)):
        assert list(rebuilt) == NAMES
        assert torch.equal(rebuilt.image, batch.image + 1)
        assert rebuilt.index is batch.index
        assert repr(rebuilt).startswith("Batch(image: (16, 32, 48, 3) uint8, label: (16,) int64,")
    assert (Batch(batch).epoch, Batch(batch).step) == (0, 0), "the same entries"
    assert Batch({"image": batch.image, "step": np.ones(3)}).step.tolist() == [1, 1, 1]
    assert (len(Batch()), repr(Batch())) == (0, "Batch()")


@pytest.mark.parametrize("name", sorted(OF_ORIGIN))
def test_a_rebuilt_batch_has_no_origin(load, name):
    batch = next(iter(load()))
    with pytest.raises(AttributeError, match=f"no {name}: .*Read {name} from the batch that the"):
        getattr(type(batch)(dict(batch)), name)


def test_a_slot_is_free_when_its_last_array_dies_in_whichever_batch(load):
    loader = load()
    batches = iter(loader)

    def leased():
        gc.collect()
        return loader.statistics().leased

    batch = next(batches)
    converted = type(batch)({name: value.to(torch.float64) for name, value in batch.items()})
    shared = type(batch)(batch.items())
    twin = copy.copy(batch)
    assert leased() == 1
    del batch
    assert leased() == 1
    image = shared["image"]
    del shared, twin
    assert leased() == 1
    before = image.clone()
    assert len(list(batches)) == 4
    assert torch.equal(image, before)
    del image
    assert leased() == 0
    assert torch.equal(converted.image, before.to(torch.float64))


def test_copies_keep_their_origin(load):
    loader = load(device="numpy")
    batch = next(iter(loader))
    deep, pickled = copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))
    for twin in (copy.copy(batch), deep, pickled):
        assert (twin.epoch, twin.step, twin.stream_id) == (0, 0, loader.spec.stream_id)
        assert twin.pipeline_id == batch.pipeline_id
        assert all(np.array_equal(twin[name], batch[name]) for name in NAMES)
    assert copy.copy(batch).image is batch.image
    del batch
    gc.collect()
    assert loader.statistics().leased == 0, "the others have memory of their own"


def test_to_moves_tensors_and_leaves_the_rest(load):
    boxes, rows = items()
    batch = Batch({"boxes": boxes, "rows": rows, "names": ["a", "b"], "count": 2})
    moved = batch.to("meta")
    assert moved["boxes"].values.is_meta
    assert moved["rows"].values.is_meta
    assert (moved["names"], moved["count"]) == (["a", "b"], 2)
    assert repr(moved).endswith("names: list of 2, count: 2)")
    with pytest.raises(UsageError, match=r"to: this batch has NumPy arrays, .* device='cpu'"):
        next(iter(load(device="numpy"))).to("cpu")


# ------------------------------------------------------------------ torch's own tools


def test_torch_converts_and_joins_batches(load):
    loader = load(device="numpy")
    first, second = list(loader)[:2]
    converted = default_convert(first)
    assert type(converted) is Batch
    assert all(torch.equal(converted[name], torch.tensor(first[name])) for name in NAMES)
    joined = default_collate([first, second])
    assert type(joined) is Batch
    assert joined.image.shape == (2, 16, 32, 48, 3)
    assert joined["index"].tolist() == [first.index.tolist(), second.index.tolist()]


def test_torch_maps_over_a_batch_as_a_tree(load):
    batch = next(iter(load()))
    doubled = torch_trees.tree_map(lambda tensor: tensor * 2, batch)
    assert type(doubled) is Batch
    assert list(doubled) == NAMES
    assert torch.equal(doubled.image, batch.image * 2)
    boxes, rows = items()
    nested = Batch({"boxes": boxes, "rows": rows, "each": [torch.ones(2), torch.ones(3)]})
    leaves, structure = torch_trees.tree_flatten(nested)
    assert len(leaves) == 5 + 3 + 2
    assert all(isinstance(leaf, torch.Tensor) for leaf in leaves)
    same = torch_trees.tree_unflatten(leaves, structure)
    assert same["boxes"].fields["label"] is boxes.fields["label"]
    assert same["boxes"].format == "xyxy"
    assert same["rows"][1].tolist() == [1, 2]
    assert [part.tolist() for part in same["each"]] == [[1, 1], [1, 1, 1]]


# ------------------------------------------------------------------ JAX


def test_jax_moves_and_compiles_for_a_batch_once(load):
    jax = pytest.importorskip("jax")
    loader = load(device="numpy")
    traced = []

    @jax.jit
    def step(batch):
        traced.append(list(batch))
        return jax.tree.map(lambda array: array * 2, batch)

    kept = []
    for _ in range(3):
        for batch in loader:
            moved, doubled = jax.device_put(batch), step(batch)
            assert isinstance(moved.image, jax.Array)
            kept.append((moved, batch["image"].copy()))
            np.testing.assert_array_equal(doubled["label"], batch["label"] * 2)
    assert traced == [NAMES], "one compilation for all batches"
    for moved, image in kept:
        np.testing.assert_array_equal(moved["image"], image)
    paths = jax.tree_util.tree_flatten_with_path(batch)[0]
    assert [path[0].key for path, _ in paths] == NAMES


def test_a_tree_library_gets_the_classes_once_and_when_it_is_whole(monkeypatch):
    """The calls of jax.tree_util, on hosts without JAX too."""
    module = types.ModuleType("jax.tree_util")
    monkeypatch.setitem(batch_trees.sys.modules, "jax.tree_util", module)
    monkeypatch.setitem(batch_trees._waiting, "jax.tree_util", ("register", batch_trees._to_jax))
    batch_trees.register()
    assert "jax.tree_util" in batch_trees._waiting, "it is being imported"
    known = []
    module.DictKey = lambda name: f"[{name}]"
    module.register_pytree_with_keys = lambda *given: known.append(given)
    module.register = module.register_pytree_with_keys
    batch_trees.register()
    batch_trees.register()
    assert [kind for kind, _, _ in known] == [Ragged, RaggedArray, Batch]
    for whole, (_, parts, build) in zip((*items(), Batch({"a": 1})), known, strict=True):
        named, structure = parts(whole)
        assert hash(structure) is not None
        again, same = parts(build(structure, [value for _, value in named]))
        assert [name for name, _ in again] == [name for name, _ in named]
        assert all(new is old for (_, new), (_, old) in zip(again, named, strict=True))
        assert same == structure


# ------------------------------------------------------------------ plain dicts


@pytest.mark.parametrize(
    ("as_dict", "kind", "names"),
    [
        (("label", "image"), dict, ["label", "image"]),
        ("label", dict, ["label"]),
        (["valid", "index"], dict, ["valid", "index"]),
        (True, dict, NAMES),
        (False, Batch, NAMES),
    ],
)
def test_dicts_of_some_entries_or_all(load, as_dict, kind, names):
    for batch in load(as_dict=as_dict):
        assert type(batch) is kind
        assert list(batch) == names


# ------------------------------------------------------------------ names that are its own

OWN = sorted(name for name in dir(Batch) if not name.startswith("_"))
"""Every public attribute, from the class: a new one must be reserved too."""


def named(name):
    def train(sample):
        return {"image": sample.image, name: sample.label}

    return train


def test_the_reserved_names_are_the_attributes_of_a_batch():
    assert sorted(RESERVED) == OWN


@pytest.mark.parametrize("name", [*OWN, "__len__", "_entries", "_mine", "_"])
def test_an_output_cannot_have_a_name_of_the_batch(name, daemon):
    line = named.__code__.co_firstlineno + 1
    for refused in (
        lambda: pipeline(named(name)).graph(),
        lambda: Loader(daemon.address, pipeline=pipeline(named(name)), batch_size=16),
        lambda: Graph.from_data(graph_with(name)),
    ):
        with pytest.raises(BuildError, match=f"output name '{name}' is reserved, .*choose") as seen:
            refused()
    with pytest.raises(BuildError, match=f"{__file__}:{line}: train: the output name"):
        pipeline(named(name)).graph()
    with pytest.raises(BuildError, match=f"{__file__}:.*pipelines: field '{name}': .*@pipeline"):
        pipelines({"image": [], name: []})
    assert seen.value.message.startswith("graph: ")


@pytest.mark.parametrize("name", ["epochs", "class", "left.image", "image 2", "é", "pop", "drawn"])
def test_other_names_are_the_outputs(name):
    assert name in dict(pipeline(named(name)).graph().outputs)
    assert getattr(Batch({name: 3}), name) == Batch({name: 3})[name] == 3


def graph_with(name):
    """The data of a graph with such an output, as a client could send it."""
    data = pipeline(named("label")).graph().to_data()
    return json.loads(json.dumps(data).replace('"label"', json.dumps(name)))
