"""Numbers that a pipeline's function draws while it is traced are refused with their line."""

import functools
import random
import secrets
import threading
import time
import uuid

import numpy as np
import pytest
import torch

from stoker import ops
from stoker.ops import State
from stoker.pipeline import bind, pipeline, pipelines
from stoker.protocol.errors import BuildError

FIELDS = {"image": State.fixed("image", "uint8", (8, 8, 3))}
NOISE, PLAIN = np.random.default_rng(3), random.Random(4)


def line_of(body):
    """The first line after the signature."""
    return body.__code__.co_firstlineno + 1


def brightened(sample, number):
    return {"image": ops.brightness(sample.image, factor_range=(float(number), 2.0), p=1.0)}


def python_global(s):
    return brightened(s, random.uniform(0.5, 1.0))


def numpy_global(s):
    return brightened(s, np.random.rand())


def torch_global(s):
    return brightened(s, torch.rand(1).item())


def coin(s):
    if random.random() < 0.5:
        return {"image": s.image}
    return {"image": ops.invert(s.image)}


def numpy_own(s):
    return brightened(s, NOISE.uniform(0.5, 1.0))


def python_own(s):
    return brightened(s, PLAIN.random())


def seeded_here(s):
    random.seed(3)
    return brightened(s, random.random())


def new_generator(s):
    return brightened(s, np.random.default_rng().uniform(0.5, 1.0))


def entropy(s):
    return brightened(s, secrets.randbelow(1000) / 1000)


def clock(s):
    return brightened(s, time.time() % 1)


def name(s):
    return brightened(s, uuid.uuid4().int % 997 / 997)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (python_global, "the pipeline itself draws from random."),
        (numpy_global, "the pipeline itself draws from numpy.random."),
        (torch_global, "the pipeline itself draws from torch."),
        (coin, "the pipeline itself draws from random."),
        (numpy_own, "the pipeline itself draws from a Generator."),
        (python_own, "the pipeline itself draws from a Random."),
        (seeded_here, "the pipeline itself draws from random."),
        (new_generator, "default_rng gives another pipeline each time."),
        (entropy, "randbelow gives another pipeline each time."),
        (clock, "time gives another pipeline each time."),
        (name, "uuid4 gives another pipeline each time."),
    ],
)
def test_a_draw_is_refused_with_its_line(body, what):
    with pytest.raises(BuildError) as caught:
        pipeline(body).graph()
    assert caught.value.message.startswith(f"{__file__}:{line_of(body)}: ")
    assert caught.value.details["line"] == line_of(body)
    for part in (what, "one constant for the whole training", "ctx.uniform(low, high)"):
        assert part in caught.value.message


def helper(low):
    first = low * 2
    return first + random.random()


def constant(low):
    return low * 2


class Counting:
    noise = random.Random(3)

    def part(self):
        return self.noise.random()

    def define(self, sample):
        return brightened(sample, self.part())


def imported_inside(s):
    import secrets as entropy_of_its_own  # noqa: PLC0415 - on purpose

    return brightened(s, entropy_of_its_own.randbelow(997) / 997)


class Drawing:
    def __init__(self):
        self.noise = np.random.RandomState(3)

    def define(self, sample):
        return brightened(sample, self.noise.rand())


def test_it_is_found_in_helpers_methods_partials_closures_and_lists():
    at_helper = f"test_own_draws.py:{helper.__code__.co_firstlineno + 2}: "
    with pytest.raises(BuildError, match=at_helper):
        pipeline(lambda s: brightened(s, helper(0.1))).graph()
    with pytest.raises(BuildError, match=f":{line_of(Drawing.define)}: .* from a RandomState"):
        pipeline(Drawing)().graph()
    for body in (
        lambda s: brightened(s, constant(0.1) + random.random() + constant(0.1)),
        lambda s: brightened(s, sum(constant(random.random()) for _ in range(2))),
    ):
        with pytest.raises(BuildError, match=f":{body.__code__.co_firstlineno}: "):
            pipeline(body).graph()
    with pytest.raises(BuildError, match=f":{line_of(Counting.part)}: .* from a Random"):
        pipeline(Counting)().graph()
    with pytest.raises(BuildError, match="secrets gives another pipeline each time"):
        pipeline(imported_inside).graph()
    own = torch.Generator().manual_seed(3)
    for body in (
        functools.partial(lambda s, noise: brightened(s, noise.random()), noise=PLAIN),
        lambda s: brightened(s, torch.rand(1, generator=own).item()),
    ):
        with pytest.raises(BuildError, match="the pipeline itself draws from a "):
            pipeline(body).graph()
    with pytest.raises(BuildError, match="the pipeline itself draws from random"):
        pipelines({"image": [lambda image: ops.rotate(image, degrees=random.randint(1, 9))]})


def test_draws_of_another_thread_are_not_those_of_the_function():
    """The other thread draws whenever it runs: before, between and after the lines."""
    drawn, stopped = threading.Event(), threading.Event()

    def draw():
        while not stopped.is_set():
            random.random()
            drawn.set()

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        assert drawn.wait(60)
        for _ in range(5):
            pipeline(lambda s: brightened(s, constant(0.2))).graph()
    finally:
        stopped.set()
        thread.join()


ANGLE = random.uniform(1, 9)


def noisy(image):
    return np.uint8(image * np.random.rand())


def with_numbers_of_its_own(sample, ctx):
    began = time.time()  # for a message
    constant = np.random.default_rng(3).uniform(1, 2)
    image = ops.rotate(sample.image, degrees=ANGLE * constant)
    image = ops.python(noisy, image, randomness="global")
    image = ops.brightness(image, p=1.0) if ctx.uniform(0, 1) < 0.5 else image
    assert began
    return {"image": image}


def test_what_is_constant_or_drawn_for_each_sample_is_built():
    states = random.getstate(), np.random.get_state()[1].tobytes()
    bind(pipeline(with_numbers_of_its_own).graph(), FIELDS)
    assert (random.getstate(), np.random.get_state()[1].tobytes()) == states
