"""Mixtures by what a Loader says of them: ids, replays, and refusals.

`law_streams` has their streams.
"""

import hashlib
import itertools
import json
from pathlib import Path

import law_pipelines
import msgspec
import numpy as np
import pytest
from commands import call
from law_streams import options
from loading import grouped

from stoker.client import Buckets, Loader
from stoker.protocol.errors import BuildError, SampleError, UnknownNameError, UsageError

pytestmark = pytest.mark.as_a_user

SIZES = Buckets(max_area=32 * 32, divisor=16, max_side=48)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["mixture of selections", "mixture in buckets", "mixture with batch ops"]
)
def test_rows_of_any_mixture_replay_and_say_what_they_drew(address, name):
    """Of each dataset: the bytes of the batch, and what the decisions of its pipeline drew."""
    given = {**options(name), "params": True}
    with Loader(address, **grouped(device="numpy", **given)) as loader:
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
    given = options(name)
    found = [f"--python-path={Path(law_pipelines.__file__).parent}"]
    for key, ratio in given["mix"].items():
        own = given["pipeline"] if isinstance(given["pipeline"], str) else given["pipeline"][key]
        found += [f"--mix={key}={ratio}", f"--dataset={key}={datasets[key]}"]
        found += [f"--pipeline={key}=law_pipelines:{own}"]
        for option in ("exclude", "subset"):
            if ids := given.get(option, {}).get(key):
                (folder / f"{option}-{key}").write_text("\n".join(map(str, ids)))
                found += [f"--{option}={key}={folder}/{option}-{key}"]
        if weights := given.get("weights", {}).get(key):
            text = weights if isinstance(weights, str) else json.dumps(weights)
            found += [f"--weights={key}={text}"]
    found += [f"--batch-size={given['global_batch_size']}"]
    for option in (
        "seed", "views", "total_epochs", "on_error", "shuffle_block_size", "shuffle_seed",
    ):  # fmt: skip
        if option in given:
            found += [f"--{option.replace('_', '-')}={given[option]}"]
    found += [f"--freeze={key}={value}" for key, value in given.get("freeze", {}).items()]
    if "buckets" in given:
        found += [f"--buckets={json.dumps(msgspec.to_builtins(given['buckets']))}"]
    found += ["--no-drop-last" if given.get("last") == "pad" else "--drop-last"]
    return [*found, "--shuffle" if given.get("shuffle", True) else "--no-shuffle"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "everything in order",
        "scheduled mixture",
        "mixture of selections",
        "mixture with batch ops",
    ],
)
def test_the_command_line_replays_rows_of_any_mixture(address, every, tmp_path, name):
    """With the same options `stoker replay` shows the bytes of the batch, of each dataset."""
    given = flags(name, every, tmp_path)
    with Loader(address, device="numpy", **grouped(**options(name))) as loader:
        for batch in itertools.islice(loader, 2):
            for ids in loader.mixture.values():
                for row in np.flatnonzero(np.isin(batch.index, ids) & batch.valid)[:2].tolist():
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
def test_an_id_tells_its_dataset_and_replays(address):
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
def test_an_error_of_a_users_function_names_the_dataset_and_its_sample(address, every):
    given = {**options("own pipelines"), "freeze": {}, "pipeline": "refusing"}
    with (
        Loader(address, **grouped(**given)) as loader,
        pytest.raises(SampleError, match="expected noise, got a photograph") as caught,
    ):
        next(iter(loader))
    sample, path = caught.value.details["id"], caught.value.details["dataset"]
    (name,) = (name for name, ids in loader.mixture.items() if sample in ids)
    assert path == str(every[name])
    assert f"(sample {sample - loader.mixture[name].start} of {path})" in str(caught.value)


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
            {
                "mix": {"photos": 1, "boxed": 0.01},
                "total_epochs": 2,
                "buckets": SIZES,
                "pipeline": {"photos": "cropped", "boxed": "cropped_flips"},
            },
            UsageError,
            "mix: dataset 'boxed' has 1 rows in an epoch, by its ratio, and samples in",
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
