"""RandAugment, TrivialAugmentWide, AutoAugment: what each choice does, how often, to which values.

Pixels are compared with Pillow, which the papers used; levels within 1 where torchvision rounds in
another way, geometry in at least 95 % of the pixels (positions half way between two differ).
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps
from scipy.stats import chisquare

from stoker import ops
from stoker.ops import OneOf
from stoker.pipeline import (
    Row,
    augmix,
    auto_augment,
    pipeline,
    rand_augment,
    scope,
    trivial_augment_wide,
)
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.policies.magnitudes import NAMES
from stoker.pipeline.policies.policies import POLICIES
from stoker.protocol.errors import BuildError


@pytest.fixture(scope="module")
def fields(photo):
    image = photo[0][60:180, 90:250].copy()
    return {"image": image, "mask": image[..., 1].copy()}


def run(pipe, fields, ids, **options):
    """Yield (outputs, stream -> record) of each id."""
    plan = pipe.plan_for(fields)
    engine = Interpreter(plan, **options)
    for number in ids:
        outputs = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
        engine.run(Row(3, number, 0), [fields[name] for name in plan.fields], outputs)
        named = {o.name: array for o, array in zip(plan.outputs, outputs, strict=True)}
        yield named, {e["stream"]: e["record"] for e in engine.records() if e["stream"]}


def moved(image, name, size):
    """Pillow's nearest transform about the center, for (source x, y) of each output pixel."""
    height, width = image.shape[:2]
    if name == "rotate":
        return np.asarray(Image.fromarray(image).rotate(size, Image.Resampling.NEAREST))
    cx, cy = width / 2, height / 2
    x, y = {"shear_x": (size, 0), "shear_y": (0, size)}.get(name, (0, 0))
    dx, dy = {"translate_x": (size * width, 0), "translate_y": (0, size * height)}.get(name, (0, 0))
    dx, dy = round(dx), round(dy)
    # Output (u, v) shows source (u + x * (v - cy) - dx, v + y * (u - cx) - dy).
    matrix = (1, x, -x * cy - dx, y, 1, -y * cx - dy)
    return np.asarray(
        Image.fromarray(image).transform(
            (width, height), Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST
        )
    )


def colored(image, name, size):
    """Pillow's color transforms."""
    picture = Image.fromarray(image)
    enhance = {
        "brightness": ImageEnhance.Brightness,
        "color": ImageEnhance.Color,
        "contrast": ImageEnhance.Contrast,
        "sharpness": ImageEnhance.Sharpness,
    }
    if name in enhance:
        return np.asarray(enhance[name](picture).enhance(1 + size))
    plain = {
        "identity": lambda p: p,
        "autocontrast": ImageOps.autocontrast,
        "equalize": ImageOps.equalize,
        "invert": ImageOps.invert,
        "posterize": lambda p: ImageOps.posterize(p, int(size)),
        "solarize": lambda p: ImageOps.solarize(p, size),
    }
    return np.asarray(plain[name](picture))


def assert_transformed(before, after, name, size):
    """Compare image and mask with Pillow's; the mask follows geometry only."""
    if name in ("rotate", "shear_x", "shear_y", "translate_x", "translate_y"):
        for key in ("image", "mask"):
            expected = moved(before[key], name, size)
            differs = (after[key] != expected).reshape(*expected.shape[:2], -1).any(2).mean()
            assert differs < 0.05, (name, key, size, differs)
    else:
        assert np.array_equal(after["mask"], before["mask"])
        expected = colored(before["image"], name, size)
        distance = np.abs(after["image"].astype(int) - expected).max()
        assert distance <= 1, (name, size, distance)


def level_of(name, part):
    """Magnitudes of RandAugment and AutoAugment, as the papers and torchvision define them."""
    tops = {"shear_x": 0.3, "shear_y": 0.3, "rotate": 30.0}
    tops |= dict.fromkeys(("translate_x", "translate_y"), 150 / 331)
    tops |= dict.fromkeys(("brightness", "color", "contrast", "sharpness"), 0.9)
    if name == "posterize":
        return 8 - round(part * 4)
    if name == "solarize":
        return 255 - 255 * part
    return tops.get(name, 0.0) * part


SIGNED = NAMES[1:10]


def test_rand_augment_does_what_it_says(fields):
    @pipeline
    def train(sample):
        image, mask = rand_augment(sample.image, sample.mask, num_ops=1, magnitude=12)
        return {"image": image, "mask": mask}

    chosen, signs = Counter(), Counter()
    for after, drawn in run(train, fields, range(150)):
        name = NAMES[drawn["rand_augment/0"]["choice"]]
        size = level_of(name, 12 / 30)
        streams = {"rand_augment/0"} | ({f"rand_augment/0/{name}"} if name != "identity" else set())
        if name in SIGNED:
            sign = drawn["rand_augment/0/sign"]["apply"]
            signs[sign] += 1
            size = size if sign else -size
            streams.add("rand_augment/0/sign")
        assert set(drawn) == streams
        assert_transformed(fields, after, name, size)
        chosen[name] += 1
    assert set(chosen) == set(NAMES)
    assert min(signs.values()) > 30


def test_auto_augment_does_what_it_says(fields):
    @pipeline
    def train(sample):
        image, mask = auto_augment(sample.image, sample.mask, policy="cifar10")
        return {"image": image, "mask": mask}

    pairs, seen, alone = POLICIES["cifar10"], set(), 0
    for after, drawn in run(train, fields, range(180)):
        number = drawn["auto_augment"]["choice"]
        seen.add(number)
        happened = []
        for place, (name, p, level) in enumerate(pairs[number]):
            path = f"auto_augment/{number}/{place}"
            applied = p == 1 or (p > 0 and drawn[f"{path}/p"]["apply"])
            assert applied == (f"{path}/{name}" in drawn)
            sign = drawn.get(f"{path}/sign", {"apply": 1})["apply"]
            if applied:
                size = level_of(name, level / 9)
                happened.append((name, size if sign else -size))
        if not happened:
            assert np.array_equal(after["image"], fields["image"])
        elif len(happened) == 1:
            assert_transformed(fields, after, *happened[0])
            alone += 1
    assert len(seen) == 25
    assert alone > 20


def test_trivial_augment_draws_from_its_wide_ranges(fields):
    @pipeline
    def train(sample):
        image, mask = trivial_augment_wide(sample.image, sample.mask)
        return {"image": image, "mask": mask}

    sizes: dict[str, list] = {name: [] for name in NAMES}
    for after, drawn in run(train, fields, range(200)):
        name = NAMES[drawn.pop("trivial_augment_wide")["choice"]]
        record = drawn.get(f"trivial_augment_wide/{name}", {})
        level = drawn.get("trivial_augment_wide/level", {"choice": 0})["choice"]
        size = 0.0
        if name.startswith("shear"):
            size = math.tan(math.radians(record[name]))
        elif name.startswith("translate"):
            size = record[name] / fields["image"].shape[1 if name.endswith("x") else 0]
        elif name == "rotate":
            size = record["angle"]
        elif "factor" in record:
            size = record["factor"] - 1
        elif name == "posterize":
            size = 8 - level
        elif name == "solarize":
            size = 255 - 8.5 * level
        sizes[name].append(size)
        assert_transformed(fields, after, name, size)
    tops = {"shear_x": 0.99, "translate_x": 0.15, "rotate": 135, "color": 0.99}
    for name, top in tops.items():
        assert 0.4 * top < max(map(abs, sizes[name])) <= top
        assert min(sizes[name]) < 0 < max(sizes[name])
    assert all(sizes.values())


def test_choices_are_as_likely_as_said():
    drawn = Counter(
        OneOf((1.0,) * 14).sample(0, 0, id=k, stream="rand_augment/0")["choice"]
        for k in range(5000)
    )
    assert chisquare([drawn[k] for k in range(14)]).pvalue > 1e-4
    # TrivialAugment's 31 levels of posterize: 2 to 8 bits.
    op = next(
        n
        for n in _draws(trivial_augment_wide)
        if n["op"] == "one_of" and len(n["params"]["weights"]) == 7
    )
    assert op["params"]["weights"] == [3, 5, 5, 5, 5, 5, 3]


def _draws(function, **options):
    graph = pipeline(lambda sample: {"x": function(sample.image, **options)}).graph()
    found = []

    def walk(nodes):
        for node in nodes:
            found.extend([node] if node["node"] == "draw" else [])
            if node["node"] == "if":
                walk(node["then"]["nodes"])
                walk(node["else"]["nodes"])

    walk(graph.to_data()["nodes"])
    return found


def test_names_scopes_and_freeze(fields):
    @pipeline
    def train(sample):
        with scope("weak"):
            image = rand_augment(sample.image, num_ops=1, magnitude=3)
        image = rand_augment(image, num_ops=1, stream="strong")
        return {"image": image}

    streams = train.plan_for(fields).streams
    assert {"weak/rand_augment/0", "weak/rand_augment/0/rotate", "strong/0"} < set(streams)
    frozen = dict.fromkeys(streams, 5)
    results = [o["image"].tobytes() for o, _ in run(train, fields, range(6), freeze=frozen)]
    assert len(set(results)) == 1
    assert [len(_draws(rand_augment, num_ops=n)) for n in (0, 1)] == [0, 1 + 9 * 3 + 4]


@pytest.mark.slow
def test_machine_code_agrees(fields, both):
    @pipeline
    def train(sample):
        image, mask = rand_augment(sample.image, sample.mask, num_ops=1, magnitude=20)
        return {"image": image, "mask": mask}

    plan = train.plan_for(fields)
    results = both(plan, [Row(9, k, 1) for k in range(40)], list(fields.values()))
    assert len({image.tobytes() for image, _ in results}) > 12
    # A choice of 23 transforms needs the memory of one, and scratch.
    assert plan.arena_bytes < 3 * fields["image"].nbytes


@pytest.mark.parametrize("compose", [rand_augment, trivial_augment_wide, auto_augment, augmix])
def test_images_of_floats_are_refused_with_what_to_do(compose, fields):
    """They contain ops that count or look up 256 levels."""

    @pipeline
    def train(sample):
        return {"image": compose(ops.to_float(sample.image))}

    with pytest.raises(
        BuildError,
        match=r"test_augment.py:\d+: .*float32.*, or call from_float before it, or before what "
        r"contains it \(as rand_augment\)",
    ):
        train.plan_for(fields)


def test_what_is_refused():
    def refused(message, body):
        with pytest.raises(BuildError, match=message):
            pipeline(lambda sample: {"image": body(sample.image)}).graph()

    line = r"test_augment.py:\d+: "
    refused(line + r"rand_augment: expected magnitude to be an integer from 0 to 30, got 31",
            lambda v: rand_augment(v, magnitude=31))  # fmt: skip
    refused(line + r"rand_augment: expected num_ops", lambda v: rand_augment(v, num_ops=-1))
    refused(line + r"auto_augment: expected policy to be one of imagenet, cifar10, svhn, got 'x'",
            lambda v: auto_augment(v, policy="x"))  # fmt: skip
    refused(line + "trivial_augment_wide: expected fields of a sample, got int",
            lambda v: trivial_augment_wide(3))  # fmt: skip
    refused(line + r"rand_augment/0: the default stream name 'rand_augment/0' is taken",
            lambda v: rand_augment(rand_augment(v)))  # fmt: skip
