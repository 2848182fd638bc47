"""`in`, `not in` and `match` on values that are decided for each sample."""

import numpy as np
import pytest

from stoker import ops
from stoker.pipeline import pipeline
from stoker.protocol.errors import BuildError

IMAGE = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)


def flipped(pipe, **fields):
    found = pipe({"image": IMAGE, "label": 0} | fields)["image"]
    assert np.array_equal(found, IMAGE) or np.array_equal(found, IMAGE[:, ::-1])
    return not np.array_equal(found, IMAGE)


@pytest.mark.parametrize("among", [(2, 5), [5, 2], {2, 5}, frozenset((2, 5)), range(2, 6, 3)])
def test_a_label_among_numbers(among):
    @pipeline
    def train(sample):
        image = sample.image
        if sample.label in among:
            image = ops.horizontal_flip(image, p=1.0)
        return {"image": image}

    assert [flipped(train, label=n) for n in range(7)] == [n in among for n in range(7)]


def test_a_label_not_among_numbers_and_none_at_all():
    nobody = ()

    @pipeline
    def train(sample):
        image = sample.image
        if sample.label not in (0, 1) and sample.label not in nobody:
            image = ops.horizontal_flip(image, p=1.0)
        return {"image": image}

    assert [flipped(train, label=n) for n in range(4)] == [False, False, True, True]


def test_python_values_are_unchanged():
    seen = []

    @pipeline
    def train(sample):
        for name in ("a", "b"):
            if name in {"a": 1} and name not in "bc":
                seen.append(name)  # noqa: PERF401 - an `in` inside of an `if`
        return {"image": sample.image}

    train.graph()
    assert seen == ["a"]


def test_sets_give_one_graph():
    def graph(among):
        @pipeline
        def train(sample):
            image = ops.center_crop(sample.image, size=2)
            return {"image": image, "chosen": sample.label in among}

        return train.pipeline_id

    assert graph({1, 2, 3}) == graph({3, 2, 1}) == graph((1, 2, 3))


def in_text(sample):
    return {"x": sample.label in "abc"}


def text_of_a_sum(sample):
    return {"x": sample.label + 1 == "cat"}


def less_than_text(sample):
    return {"x": sample.label < "cat"}


def matched(sample):
    x = 0
    match sample.label:
        case 1:
            x = sample.label
    return {"x": x}


@pytest.mark.parametrize(
    ("define", "message"),
    [
        (
            in_text,
            r"field 'label' in ...: expected a tuple, list, set or range of numbers, got str",
        ),
        (text_of_a_sum, r"got str 'cat'. Text is the name of a class: compare it with a label of"),
        (less_than_text, r"got str 'cat'. Text is the name of a class: compare it with a label of"),
        (matched, r"`match` on field 'label', which is decided for each sample: write `if`"),
    ],
)
def test_what_is_refused_says_what_to_write(define, message):
    with pytest.raises(BuildError, match=r"test_members\.py:\d+: .*" + message):
        pipeline(define).graph()
