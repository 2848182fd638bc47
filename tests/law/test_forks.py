"""Loader(group=..., mode="fork"): seeds and pipelines of their own, one decode, the same bytes.

Photographs on a grid and masks in bands, of which lone workers decode only boxes. Members have
other pipelines, seeds and policies, and one order, of any kind.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import law_pipelines
import numpy as np
import pytest
from counting import counters, counters_at_rest, wait_for
from daemons import Daemon, children
from law_damage import ROWS, damage, write_pictures
from law_rig import serving
from loading import digest, grouped, in_step
from warm import Script

from stoker import ops
from stoker.client import Buckets, LengthBuckets, Loader
from stoker.pipeline import outputs, pipeline
from stoker.protocol.digest import batch_digest
from stoker.protocol.errors import UsageError
from stoker.protocol.spec import OrderSpec
from stoker.server.rows.reference import MixSource, reference_mix

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]
B, EPOCHS, FIELDS = 8, 2, 2
STEPS = ROWS // B
ORDER = {"batch_size": B, "shuffle_seed": 5}
MEMBERS = (
    {"pipeline": "crops", "seed": 1},
    {"pipeline": "evaluation", "seed": 2, "on_error": "mask"},
    {"pipeline": "mixed", "seed": 3, "on_error": "replace", "verify": True},
    {"pipeline": "crops", "seed": 4, "freeze": {"horizontal_flip": 7}, "params": True},
)
"""Random boxes, a box that follows from the size, batch ops, and draw records."""


@pipeline
def captioned(sample):
    """A picture that is decoded, and words in buckets of their lengths."""
    image, mask = ops.random_resized_crop(sample.image, sample.mask, size=40, scale=(0.2, 0.7))
    return {"image": image, "mask": mask, "words": outputs.pad(ops.fit_length(sample.words))}


FITTED = (
    {"pipeline": "fitted", "seed": 1, "total_epochs": 2},
    {"pipeline": "fitted", "seed": 2, "total_epochs": 9, "on_error": "replace"},
    {"pipeline": "fitted_mixed", "seed": 2},
)
CROPS = ({"pipeline": "crops", "seed": 3}, {"pipeline": "evaluation", "seed": 4, "params": True})
SIZES = {"max_area": 48 * 48, "divisor": 16, "max_side": 64}
ORDERS = {
    "buckets": ({"buckets": Buckets(**SIZES)}, FITTED[:2]),
    "merged buckets": (
        {"buckets": Buckets(**SIZES, leftovers="merge", constant="pixels"), "views": 2}, FITTED[1:]
    ),
    "buckets that drop": (
        {"buckets": Buckets(**SIZES, leftovers="drop"), "exclude": [3, 8], "shuffle": False,
         "shuffle_seed": None},
        FITTED[:2],
    ),
    "lengths": (
        {"dataset": "boxed", "buckets": LengthBuckets(field="words", multiple=2)},
        ({"pipeline": captioned, "seed": 5}, {"pipeline": captioned, "seed": 6}),
    ),
    "mixture": (
        {"dataset": None, "mix": {"boxed": 2, "whole": 3}},
        ({"pipeline": "crops", "seed": 7}, {"pipeline": "evaluation", "seed": 8}),
    ),
    "mixture in order": (
        {"dataset": None, "mix": {"boxed": 1, "whole": 1}, "shuffle": False},
        (
            {"pipeline": {"boxed": "squares", "whole": "windows"}, "seed": 9},
            {"pipeline": "windows", "seed": 10, "freeze": {"color_jitter": 7}},
        ),
    ),
    "weighted buckets in blocks": (
        {"buckets": Buckets(**SIZES), "weights": [1, 3] * (ROWS // 2), "shuffle_block_size": 6},
        FITTED[:2],
    ),
    "buckets over a mixture": (
        {"dataset": None, "mix": {"boxed": 2, "whole": 3}, "buckets": Buckets(**SIZES)}, FITTED[:2]
    ),
    "a mixture of selections": (
        {"dataset": None, "mix": {"boxed": 2, "whole": 3}, "exclude": {"whole": [1, 2]},
         "weights": {"boxed": "weight"}, "shuffle_block_size": 5},
        CROPS,
    ),
    "clips of a mixture": (
        {"dataset": None, "mix": {"clips": 1, "smaller": 1}, "batch_size": 4},
        ({"pipeline": "clips", "seed": 1}, {"pipeline": "clips", "seed": 2, "on_error": "mask"}),
    ),
    "clips of a mixture in buckets": (
        {"dataset": None, "mix": {"clips": 2, "smaller": 1}, "batch_size": 2,
         "buckets": Buckets(max_area=32 * 32, divisor=8)},
        ({"pipeline": "clips_in_buckets", "seed": 1}, {"pipeline": "clips_in_buckets", "seed": 2}),
    ),
    "a subset in order": (
        {"subset": range(0, ROWS, 2), "shuffle": False, "shuffle_seed": None, "last": "pad"}, CROPS
    ),
}  # fmt: skip
"""Arguments that members have in common, and those of each."""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory, photographs) -> dict[str, Path]:
    """The same pictures twice; some of the second ones are damaged."""
    folder = tmp_path_factory.mktemp("forks")
    found = {name: folder / name for name in ("whole", "damaged")}
    for path in found.values():
        write_pictures(path, photographs)
    damage(found["damaged"])
    return found


@pytest.fixture(scope="module")
def served(tmp_path_factory, pictures, every) -> Iterator[Daemon]:
    datasets = {**every, **pictures}
    with serving(tmp_path_factory.mktemp("served"), datasets, workers=2) as daemon:
        yield daemon


@contextlib.contextmanager
def loaders(address: str, group: str, wanted: Sequence[dict], **more: object) -> Iterator[list]:
    """Members of a fork; the first batch of each has been asked for."""
    with contextlib.ExitStack() as stack:
        options = {"device": "numpy", "dataset": "whole", "group": group, "mode": "fork", **ORDER}
        options |= {"group_size": len(wanted), **more}
        made = [stack.enter_context(Loader(address, **grouped(**options, **one))) for one in wanted]
        yield made


def alone(address: str, wanted: dict, count: int = EPOCHS) -> list[str]:
    options = {"dataset": "whole", "device": "numpy", **ORDER, **wanted}
    with Loader(address, **grouped(**options)) as loader:
        return [digest(b) for _ in range(count) for b in loader]


@pytest.fixture(scope="module")
def lone(served) -> list[list[str]]:
    """The digests of each member's stream without a group."""
    return [alone(served.address, one) for one in MEMBERS]


@pytest.mark.parametrize("count", [2, 4])
def test_each_sample_is_decoded_once_for_all(served, lone, count) -> None:
    """Batches prefetched beyond the end are counted apart."""
    before = counters_at_rest(served.address)
    with loaders(served.address, f"once-{count}", MEMBERS[:count]) as made:
        assert in_step(made, EPOCHS) == lone[:count]
        ahead = made[0]._connection.stream.opened.slots
        after = counters(served.address)
    decodes = after["decodes_total"] - before["decodes_total"]
    assert EPOCHS * STEPS * B * FIELDS <= decodes <= (EPOCHS * STEPS + ahead) * B * FIELDS
    rows = after["rows_total"] - before["rows_total"]
    assert decodes * count <= rows * FIELDS + ahead * B * FIELDS, "so no row was decoded apart"
    after = counters_at_rest(served.address)
    assert after["memory_working_bytes"] == before["memory_working_bytes"] == 0


@pytest.mark.parametrize("name", [one for one in ORDERS if one not in ("buckets", "mixture")])
def test_any_order(served, name) -> None:
    """Two members in step, each as alone, and each picture and mask decoded once for both.

    But mosaics read further samples.
    """
    order, members = ORDERS[name]
    before = counters_at_rest(served.address)
    with loaders(served.address, name, members, **order) as made:
        found = in_step(made, EPOCHS)
        after = counters(served.address)
    assert found == [alone(served.address, {**order, **one}) for one in members]
    assert found[0] != found[1]
    if "clips" in name:  # each seed draws other frames of a clip
        return
    decodes, rows = (after[key] - before[key] for key in ("decodes_total", "rows_total"))
    assert decodes * 2 <= rows * FIELDS * 1.3 or FITTED[2] in members, "the rows of one decode"


@pytest.mark.parametrize("name", ["merged buckets", "lengths", "buckets over a mixture"])
def test_a_mirror_of_any_order(served, name) -> None:
    order, members = ORDERS[name]
    before = counters_at_rest(served.address)
    with loaders(served.address, name, members[:1] * 2, **order, mode="mirror") as made:
        found = in_step(made, EPOCHS)
        shared = counters(served.address)["shared_batches_total"] - before["shared_batches_total"]
    assert found == [alone(served.address, {**order, **members[0]})] * 2
    assert shared >= len(found[0])


@pytest.mark.parametrize("seed", [1, 2])
def test_clips_are_those_of_the_reference(served, every, seed) -> None:
    """What the members of a fork of clips get is the stream of the Law with their seeds."""
    order, members = ORDERS["clips of a mixture"]
    graph = law_pipelines.clips.graph()
    parts = [MixSource(every[dataset], graph, ratio) for dataset, ratio in order["mix"].items()]
    fields = {"batch_size": order["batch_size"], "order": OrderSpec(seed=5), "seed": seed}
    assert alone(served.address, {**order, **members[seed - 1]}) == [
        batch_digest(arrays, epoch, step)
        for epoch in range(EPOCHS)
        for step, arrays in reference_mix(parts, epoch=epoch, **fields)
    ]


@pytest.mark.parametrize("name", ["buckets", "lengths", "mixture", "clips of a mixture"])
def test_a_rank_resumes_while_workers_die(served, name) -> None:
    order, members = ORDERS[name]
    is_clips = name.startswith("clips")
    rank = {**order, "batch_size": 1 if is_clips else 2, "rank": 1, "world_size": 2}
    expected, states = [], []
    for one in members:
        with Loader(
            served.address, **grouped(**{"dataset": "whole", **ORDER, **rank, **one})
        ) as loader:
            loop = iter(loader)
            skipped = [digest(next(loop)) for _ in range(2)]
            states.append(loader.state_dict())
            expected.append([digest(batch) for batch in loop])
            assert skipped[0] not in expected[-1]
    with loaders(served.address, name, members, **rank) as made:
        for one, state in zip(made, states, strict=True):
            one.load_state_dict(state)

        def kill(turn: int) -> None:
            if turn == 2:
                os.kill(children(children(served.pid)[0])[0], signal.SIGKILL)

        found = in_step(made, 1, kill)
        assert found == expected
        for one in made:
            batch = next(iter(one))
            row = len(batch.index) - 1
            shown = batch["image"][row, 0] if is_clips else batch["image"][row]  # the first frame
            pixels = {value.name: value.array for value in one.replay_row(batch, row).outputs}
            assert np.array_equal(pixels["image"], shown)


def test_damaged_pictures_are_bad_where_a_lone_stream_reads_them(served, pictures, law) -> None:
    """A picture that cannot be decoded whole is decoded by each member as far as it reads it."""
    policies = [{**MEMBERS[0], "on_error": "mask"}, {**MEMBERS[1], "on_error": "replace"}]
    expected = [
        law.reference(
            pictures["damaged"], getattr(law_pipelines, one["pipeline"]).graph(), range(1),
            batch_size=B, seed=one["seed"], on_error=one["on_error"], order=OrderSpec(seed=5),
        )
        for one in policies
    ]  # fmt: skip
    with loaders(served.address, "damaged", policies, dataset="damaged") as made:
        assert in_step(made, 1) == expected


def test_a_late_member_and_one_that_stops(served, lone) -> None:
    with loaders(served.address, "late", MEMBERS[:2], group_size=None) as (first, stops):
        held = next(iter(stops))
        loop = iter(first)
        found = [next(loop) for _ in range(3)]
        with loaders(served.address, "late", MEMBERS[2:3], group_size=None) as (late,):
            assert [digest(b) for b in late] == lone[2][:STEPS]
        found += loop
        assert [digest(b) for b in found] == lone[0][:STEPS]
        assert digest(held) == lone[1][0]


MEMBER = """
import sys
from stoker.client import Group, Loader, Shuffle
from stoker.protocol.digest import batch_digest

loader = Loader(
    sys.argv[1], pipeline="evaluation", batch_size=8, device="numpy", dataset="whole",
    group=Group("killed", mode="fork"), seed=2, shuffle=Shuffle(seed=5), on_error="mask",
)
for epoch in range(10**6):
    for batch in loader:
        print(batch_digest(batch, batch.epoch, batch.step), flush=True)
"""


def test_a_member_and_workers_are_killed(served, lone) -> None:
    with loaders(served.address, "killed", MEMBERS[::2], group_size=None) as made:
        used = counters(served.address)["memory_used_bytes"]
        with Script("-c", MEMBER, served.address, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert [child.stdout.readline().strip() for _ in range(3)] == lone[1][:3]
            child.kill()
        wait_for(lambda: counters(served.address)["members"] == 2)
        loops = [iter(one) for one in made]
        for step in range(STEPS):
            if step == 1:
                os.kill(children(children(served.pid)[0])[0], signal.SIGKILL)
            batches = [next(loop) for loop in loops]
            found = [digest(batch) for batch in batches]
            assert found == [lone[0][step], lone[2][step]]
            del batches
        # The build of the member that is gone needs no memory of workers any more.
        wait_for(lambda: counters(served.address)["memory_used_bytes"] <= used)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"shuffle_seed": None, "seed": 9}, "with one seed; then their seed= may differ"),
        ({"mode": "mirror"}, "its members have mode='fork'"),
        ({"mode": "both"}, "Group.mode='both': expected one of 'mirror', 'fork'"),
        ({"buckets": Buckets(**SIZES), "pipeline": "fitted_mixed"}, "buckets: was None, is"),
        ({"dataset": None, "mix": {"whole": 1}}, "mixture: was [], is [('content:"),
    ],
)
def test_what_is_refused(served, changes, named) -> None:
    with loaders(served.address, "refused", MEMBERS[:1], group_size=None):
        options = {"device": "numpy", "dataset": "whole", "group": "refused", "mode": "fork"}
        with pytest.raises(UsageError) as refused:
            Loader(
                served.address, **grouped(**{**options, **ORDER, "pipeline": "crops", **changes})
            )
        assert named in refused.value.message
