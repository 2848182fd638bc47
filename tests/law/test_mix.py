"""The Law, of mixtures: what a daemon delivers of several datasets equals the reference."""

import functools
import hashlib
import itertools
import json
from pathlib import Path

import law_pipelines
import msgspec
import numpy as np
import pytest
from commands import call
from law_rig import serving
from loading import grouped

from stoker.client import Buckets, Loader
from stoker.protocol.digest import batch_digest
from stoker.protocol.errors import BuildError, UnknownNameError, UsageError
from stoker.protocol.spec import OrderSpec
from stoker.server.rows.reference import MixSource, reference_mix

pytestmark = pytest.mark.as_a_user

EPOCHS = range(2)
SELECTED = {
    "batch_size": 4,
    "seed": 6,
    "exclude": {"photos": [1, 2]},
    "subset": {"boxed": [*range(30)]},
    "weights": {"photos": {"day": 1, "night": 3}},
    "buckets": Buckets(max_area=32 * 32, divisor=16, max_side=48),
    "params": True,
}
"""Every option of an order and of draw records that another option might exclude."""
MIXES = {
    "everything": (
        {"photos": 0.5, "boxed": 0.5},
        {"photos": "cropped", "boxed": "cropped_flips"},
        {**SELECTED, "order": OrderSpec(block=5, seed=9)},
    ),
    "everything in order": (
        {"photos": 0.5, "boxed": 0.5},
        {"photos": "cropped", "boxed": "cropped_flips"},
        {**SELECTED, "order": OrderSpec(shuffle=False, seed=9)},
    ),
    "scheduled": (
        {"photos": 0.6, "boxed": 0.4},
        "scheduled",
        {"batch_size": 7, "seed": 3, "total_epochs": 2, "on_error": "replace"},
    ),
    "one pipeline": ({"photos": 0.7, "tars": 0.3}, "windows", {"batch_size": 7, "seed": 5}),
    "in order": (
        {"tars": 1, "boxed": 2, "photos": 5},
        "windows",
        {"batch_size": 6, "views": 2, "order": OrderSpec(shuffle=False)},
    ),
    "own pipelines": (
        {"photos": 0.6, "boxed": 0.4},
        {"photos": "squares", "boxed": "windows"},
        {"batch_size": 8, "seed": 2, "freeze": {"color_jitter": 7}},
    ),
    "selected": (
        {"photos": 0.6, "boxed": 0.4},
        {"photos": "blended", "boxed": "blended_squares"},
        {
            "batch_size": 6,
            "seed": 4,
            "order": OrderSpec(block=5, seed=9),
            "exclude": {"photos": [1, 2, 30], "boxed": [0]},
            "weights": {"boxed": "weight"},
        },
    ),
    "buckets": (
        {"photos": 0.3, "boxed": 0.5, "tars": 0.2},
        {"photos": "cropped", "boxed": "cropped_flips", "tars": "cropped"},
        {
            "batch_size": 4,
            "seed": 5,
            "exclude": {"tars": [4, 5, 6]},
            "weights": {"photos": {"day": 1, "night": 3}},
            "buckets": Buckets(max_area=32 * 32, divisor=16, max_side=48),
        },
    ),
    "padded": (
        {"photos": 0.2, "boxed": 0.8},
        {"photos": "ragged", "boxed": "ragged_squares"},
        {"batch_size": 5, "seed": 8},
    ),
    "batch ops": (
        {"photos": 0.6, "boxed": 0.4},
        {"photos": "blended_squares", "boxed": "blended"},
        {"batch_size": 9, "seed": 3},
    ),
}


def own(pipeline, name):
    return pipeline[name] if isinstance(pipeline, dict) else pipeline


@pytest.fixture(scope="module")
def address(tmp_path_factory, datasets):
    with serving(tmp_path_factory.mktemp("mixed"), datasets, workers=2) as running:
        yield running.address


@pytest.fixture(scope="module")
def expected(datasets):
    """Digests of every mixture, by the interpreter in this process."""
    found = {}
    for name, (mix, pipeline, given) in MIXES.items():
        fields = dict(given)
        exclude, weights = fields.pop("exclude", {}), fields.pop("weights", {})
        for key, ids in fields.pop("subset", {}).items():
            exclude = {**exclude, key: sorted(set(range(37)) - set(ids))}
        fields.pop("params", None)
        parts = [
            MixSource(
                datasets[key], getattr(law_pipelines, own(pipeline, key)).graph(), ratio,
                exclude.get(key, ()), weights.get(key),
            )
            for key, ratio in mix.items()
        ]  # fmt: skip
        found[name] = [
            batch_digest(arrays, epoch, step)
            for epoch in EPOCHS
            for step, arrays in reference_mix(parts, epoch=epoch, **fields)
        ]
    return found


def options(name):
    mix, pipeline, fields = MIXES[name]
    given = {"mix": mix, "pipeline": pipeline, **fields}
    given["global_batch_size"] = given.pop("batch_size")
    order = given.pop("order", OrderSpec())
    given |= {
        "shuffle": order.shuffle, "shuffle_block_size": order.block, "shuffle_seed": order.seed
    }  # fmt: skip
    return given


@pytest.mark.slow
@pytest.mark.parametrize("name", MIXES)
def test_any_number_of_ranks(address, law, expected, name):
    for ranks, prefetch in ((1, 4), (3, 2)):
        got = law.delivered(address, EPOCHS, ranks, prefetch=prefetch, **options(name))
        assert got == expected[name], ranks


@pytest.mark.slow
@pytest.mark.parametrize("name", ["own pipelines", "buckets"])
def test_workers_that_die(datasets, daemon, law, expected, name):
    plan = "worker.row:kill:2:1,worker.chunk_done:kill:1:2"
    with functools.partial(daemon, datasets=datasets)(2, plan) as running:
        got = law.delivered(running.address, EPOCHS, **options(name))
        assert got == expected[name]
        assert running.log.read_text().count("SIGKILL") == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one pipeline", "selected", "buckets"])
def test_resume_with_another_rank_count(address, law, expected, name):
    given = options(name)
    with Loader(address, device="numpy", **grouped(**given)) as loader:
        steps = len(loader)
        batches = iter(loader)
        for _ in range(4):
            next(batches)
        state = loader.state_dict()
    parts = [
        law.one_rank(address, EPOCHS, state, rank=rank, world_size=2, **given) for rank in range(2)
    ]
    if name == "one pipeline":
        assert steps == (37 + 37) // 7
    assert law.merged(parts) == expected[name][4:]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["selected", "buckets", "batch ops"])
def test_rows_of_any_mixture_replay_and_say_what_they_drew(address, name):
    """Of each dataset: the bytes of the batch, and what the decisions of its pipeline drew."""
    given = options(name)
    with Loader(address, device="numpy", params=True, **grouped(**given)) as loader:
        batch = next(iter(loader))
        made = {decision: batch.params[decision]["made"] for decision in batch.params}
        for ids in loader.mixture.values():
            for row in np.flatnonzero(np.isin(batch.index, ids))[:1].tolist():
                replayed = loader.replay_row(batch, row)
                for value in replayed.outputs:
                    assert np.array_equal(value.array, batch[value.name][row])
                steps = {step.stream: step.made for step in replayed.steps if step.stream}
                assert {stream for stream in steps if steps[stream]} == {
                    decision for decision in made if made[decision][row]
                }


def flags(name, datasets, folder):
    """The mixture on the command line; lists of ids are files."""
    mix, pipeline, given = MIXES[name]
    order = given.get("order", OrderSpec())
    found = [f"--python-path={Path(law_pipelines.__file__).parent}"]
    for key, ratio in mix.items():
        found += [f"--mix={key}={ratio}", f"--dataset={key}={datasets[key]}"]
        found += [f"--pipeline={key}=law_pipelines:{own(pipeline, key)}"]
        for option in ("exclude", "subset"):
            if ids := given.get(option, {}).get(key):
                (folder / f"{option}-{key}").write_text("\n".join(map(str, ids)))
                found += [f"--{option}={key}={folder}/{option}-{key}"]
        if weights := given.get("weights", {}).get(key):
            text = weights if isinstance(weights, str) else json.dumps(weights)
            found += [f"--weights={key}={text}"]
    for option in ("batch_size", "seed", "views", "total_epochs"):
        if option in given:
            found += [f"--{option.replace('_', '-')}={given[option]}"]
    found += [f"--freeze={key}={value}" for key, value in given.get("freeze", {}).items()]
    found += [f"--shuffle-block-size={order.block}"] * (order.block is not None)
    found += [f"--shuffle-seed={order.seed}"] * (order.seed is not None)
    if "buckets" in given:
        found += [f"--buckets={json.dumps(msgspec.to_builtins(given['buckets']))}", "--drop-last"]
    return [*found, "--shuffle" if order.shuffle else "--no-shuffle"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["everything in order", "scheduled", "selected", "batch ops"])
def test_the_command_line_replays_rows_of_any_mixture(address, datasets, tmp_path, name):
    """With the same options `stoker replay` shows the bytes of the batch, of each dataset."""
    given = flags(name, datasets, tmp_path)
    with Loader(address, device="numpy", **grouped(**options(name))) as loader:
        for batch in itertools.islice(loader, 2):
            for ids in loader.mixture.values():
                for row in np.flatnonzero(np.isin(batch.index, ids))[:2].tolist():
                    epoch, visit, view = batch["drawn_as"][row].tolist()
                    code, out, error = call(
                        "replay", "law_pipelines:windows", *given, "--json",
                        f"--id={batch.index[row]}", f"--epoch={epoch}", f"--visit={visit}",
                        f"--view={view}",
                    )  # fmt: skip
                    assert code == 0, error
                    shown = {one["name"]: one["blake2b"] for one in json.loads(out)["outputs"]}
                    whole = loader.replay_row(batch, row).to_data()["outputs"]
                    assert shown == {one["name"]: one["blake2b"] for one in whole}
                    plain = {key: batch[key][row] for key in shown if key in batch}
                    assert plain, "outputs of the batch were compared"
                    for key, array in plain.items():
                        digest = hashlib.blake2b(array.tobytes(), digest_size=16)
                        assert shown[key] == digest.hexdigest()


@pytest.mark.slow
def test_an_id_tells_its_dataset_and_replays(address, datasets):
    """`loader.mixture` has the ids of each dataset; replay computes a row by its own pipeline."""
    with Loader(
        address, device="numpy", verify=True, **grouped(**options("own pipelines"))
    ) as loader:
        assert loader.mixture == {"photos": range(37), "boxed": range(37, 74)}
        batch = next(iter(loader))
        for ids in loader.mixture.values():
            row = int(np.flatnonzero(np.isin(batch.index, ids))[0])
            replayed = loader.replay_row(batch, row)
            for value in replayed.outputs:
                assert np.array_equal(value.array, batch[value.name][row])
        state = loader.state_dict()
        given = {**options("own pipelines"), "mix": {"photos": 0.5, "boxed": 0.5}}
        with (
            Loader(address, **grouped(**given)) as other,
            pytest.raises(Exception, match=r"mix: was .* \(the datasets of the mixture, their pip"),
        ):
            other.load_state_dict(state)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"mix": {"photo": 1}, "pipeline": "windows"},
            UnknownNameError,
            "no dataset 'photo', did you mean 'pho",
        ),
        (
            {"pipeline": {"photos": "squares", "boxed": "padded"}},
            BuildError,
            "mix: output .* of 'photos' is .*, of 'boxed' .*: rows of one batch must agree",
        ),
        (
            {"pipeline": {"photos": "squares", "boxed": "crops"}},
            BuildError,
            "mix: output 'label' of 'photos' is missing, of 'boxed' label int64",
        ),
        (
            {"pipeline": "crops"},
            BuildError,
            "classes of field 'label' are 'day', 'night' in 'photos', without names in 'boxed'",
        ),
        (
            {"pipeline": {"photos": "blended", "boxed": "no_masks"}},
            BuildError,
            "the batch ops of 'photos' are .*Mosaic.*Mixup.*, those of 'boxed' none: a row",
        ),
        (
            {"mix": {"photos": 1, "boxed": 1e-9}},
            UsageError,
            "the ratio 1e-09 gives no row in 1000 batches of 8",
        ),
    ],
)
def test_mixtures_that_cannot_be(address, changes, error, message):
    with pytest.raises(error, match=message):
        Loader(address, **grouped(**{**options("own pipelines"), "freeze": {}, **changes}))
