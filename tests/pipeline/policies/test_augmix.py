"""AugMix: its chains, their lengths, and the mix, followed value by value through replays."""

import numpy as np
import pytest
from scipy.stats import chisquare

from stoker import ops
from stoker.pipeline import Row, augmix, pipeline, scope
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.plain.replay_row import replay
from stoker.protocol.errors import BuildError


@pytest.fixture(scope="module")
def image(photo):
    return photo[0][60:100, 90:140].copy()


def made_by(train, image, number):
    """Stream -> the step of a replay, for the row of an id; and the output."""
    plan = train.plan_for({"image": image})
    found = replay(plan, Row(3, number, 0), [image])
    return {step.stream: step for step in found.steps}, found.outputs[0].array


def test_the_mix_is_that_of_its_chains(image):
    @pipeline
    def train(sample):
        return {"image": augmix(sample.image, severity=6)}

    lengths = []
    for number in range(60):
        steps, output = made_by(train, image, number)
        versions = [image]
        for chain in range(3):
            length = steps[f"augmix/{chain}"].parameters["number"]
            value = image
            for turn in range(3):
                step = steps[f"augmix/{chain}/{turn}"]
                assert step.made == (turn < length)
                if step.made:
                    op = ops.AugmixTransform(severity=6)
                    expected = np.zeros_like(image)
                    record = {name: np.int64(v) for name, v in step.parameters.items()}
                    op.kernels["image"].plain(value, expected, op.params(), record, None)
                    (made,) = step.values
                    assert np.array_equal(made.array, expected)
                    value = expected
            versions.append(value)
            lengths.append(length)
        weights = steps["augmix"].parameters["weights"]
        assert weights[4:] == [0] * 12
        mean = sum(
            w / 65536 * v.astype(np.float64) for w, v in zip(weights, versions, strict=False)
        )
        assert np.array_equal(output, np.floor(mean + 0.5))
    assert chisquare([lengths.count(length) for length in (1, 2, 3)]).pvalue > 1e-4


def test_a_fixed_depth_draws_no_lengths(image):
    @pipeline
    def train(sample):
        mixed = augmix(sample.image, mixture_width=2, chain_depth=4, all_ops=False)
        return {"image": mixed}

    steps, _ = made_by(train, image, 1)
    turns = {f"augmix/{chain}/{turn}" for chain in range(2) for turn in range(4)}
    assert steps.keys() == {"augmix", *turns}
    drawn = {made_by(train, image, k)[0][turn].parameters["transform"]
             for k in range(12) for turn in turns}  # fmt: skip
    assert drawn == set(range(9))


def test_names_scopes_and_freeze(image):
    @pipeline
    def train(sample):
        with scope("weak"):
            mixed = augmix(sample.image, mixture_width=1, chain_depth=1)
        return {"image": augmix(mixed, mixture_width=1, stream="strong")}

    plan = train.plan_for({"image": image})
    weak, strong = ("weak/augmix", "weak/augmix/0/0"), ("strong", "strong/0", "strong/0/2")
    assert {*weak, *strong} <= set(plan.streams)
    frozen = Interpreter(plan, dict.fromkeys(plan.streams, 5))
    results = set()
    for number in range(4):
        out = np.zeros_like(image)
        frozen.run(Row(3, number, number), [image], [out])
        results.add(out.tobytes())
    assert len(results) == 1


@pytest.mark.slow
def test_machine_code_agrees(image, both):
    @pipeline
    def train(sample):
        return {"image": augmix(sample.image, severity=10, mixture_width=2)}

    plan = train.plan_for({"image": image})
    results = both(plan, [Row(9, k, 1) for k in range(40)], [image])
    assert len({mixed.tobytes() for (mixed,) in results}) == 40


def test_what_is_refused(image):
    def refused(message, body):
        with pytest.raises(BuildError, match=r"test_augmix.py:\d+: " + message):
            pipeline(lambda sample: {"image": body(sample)}).graph()

    refused("augmix takes one image, got 2 values: .*no mask, boxes or keypoints match the mix",
            lambda s: augmix(s.image, s.mask))  # fmt: skip
    refused("augmix: expected mixture_width to be an integer from 1 to 15, got 0",
            lambda s: augmix(s.image, mixture_width=0))  # fmt: skip
    refused("augmix: expected chain_depth to be an integer from 1 to 16, got 0",
            lambda s: augmix(s.image, chain_depth=0))  # fmt: skip
    refused("augmix: augmix_transform: expected severity",
            lambda s: augmix(s.image, severity=11))  # fmt: skip
    refused("augmix: random_blend: expected alpha", lambda s: augmix(s.image, alpha=0))
    refused("augmix: expected fields of a sample, got int", lambda s: augmix(3))
    refused("augmix: the default stream name 'augmix' is taken|augmix/0: the default stream name",
            lambda s: augmix(augmix(s.image)))  # fmt: skip
