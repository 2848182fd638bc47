"""Conditions on stored columns, compared with Python's own evaluation of the same text."""

from types import SimpleNamespace

import numpy as np
import pytest

from stoker.dataset import open_dataset, schema, split, write
from stoker.dataset.packing.build import Cut
from stoker.protocol.errors import UnknownNameError, UsageError
from stoker.protocol.splits import is_condition, is_split_name
from stoker.server.rows.condition import samples_where

ANIMALS = ("cat", "dog", "owl")
ROWS = 24


def row(number):
    low = number % 5 == 0
    return {
        "image": np.zeros((8 + number % 3, 8 + number % 7, 3), np.uint8),
        "mask": np.zeros((4, 4 + number % 2), np.uint8),
        "kind": number % 3,
        "plain": number % 4,
        "stamp": 1_600_000_095 + number,
        "score": np.float32(number / 10),
        "exact": number / 7,
        "old": number % 2 == 1,
        "age": None if low else number,
        "tokens": np.arange(number % 6, dtype=np.int32),
    }


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("conditions") / "d"
    fields = [
        schema.image(),
        schema.relative(schema.mask()),
        schema.label("kind", classes=ANIMALS),
        schema.label("plain"),
        schema.scalar("stamp", "int64"),
        schema.scalar("score", "float32"),
        schema.scalar("exact", "float64"),
        schema.scalar("old", "bool"),
        schema.optional(schema.scalar("age", "int64"), fill=-1),
        schema.array("tokens", "int32", (None,)),
    ]
    write(path, fields, [row(number) for number in range(ROWS)], cut=Cut(rows=5))
    split(path, {"train": 0.5, "val": "rest"})
    with open_dataset(path) as opened:
        yield opened


CONDITIONS = [
    "width >= 10",
    "height < 10 and not width == 9",
    "image.width > mask.width * 2 or mask.width == 5",
    "width / height > 1.2",
    "width + height - 2 > 16.5",
    "9 <= width < 12",
    "kind == 'cat'",
    "'owl' != kind",
    "kind in ('cat', 'owl') and plain not in [0, 3]",
    "kind == 2",
    "plain > -1 and plain != 1",
    "score >= 0.7",
    "score == 0.3",
    "0.7 <= exact",
    "old",
    "not old and True",
    "old == (width > 10)",
    "len(tokens) >= 3",
    "id < 7 or id == 20",
    "id >= kind * 10",
    "(((id > 3)))",
    "stamp > 1.6e9 + 100",
    "stamp > 1600000100.5",
    "1600000100 <= stamp and stamp != 1600000107",
    "id / plain > 2.5 and plain > 0",
    "score < 100000001 and id > 3",
    "score in (0.7, 1.1, 5)",
    "plain in (1, 2.0) and exact not in (1, 0)",
]


@pytest.mark.parametrize("text", CONDITIONS)
def test_it_holds_for_the_samples_for_which_python_says_so(dataset, text):
    expected = []
    for number in range(ROWS):
        known = row(number)
        names = {name: known[name] for name in ("plain", "exact", "old", "tokens", "stamp")} | {
            "id": number,
            "kind": Class(known["kind"]),
            "score": Single(known["score"]),
            "image": Sized(known["image"]),
            "mask": Sized(known["mask"]),
            "width": known["image"].shape[1],
            "height": known["image"].shape[0],
        }
        names["plain"] = Divisor(known["plain"])
        if eval(text, {}, names):
            expected.append(number)
    assert 0 < len(expected) < ROWS
    assert samples_where(dataset, text).ids.tolist() == expected


def Sized(pixels):
    return SimpleNamespace(width=pixels.shape[1], height=pixels.shape[0])


class Class(int):
    """A class number that equals its name too."""

    __hash__ = int.__hash__

    def __eq__(self, other):
        return ANIMALS[self] == other if isinstance(other, str) else int(self) == other

    def __ne__(self, other):
        return not self == other


class Single(float):
    """A float32, which constants are rounded to before they are compared."""

    __hash__ = float.__hash__

    def __ge__(self, other):
        return float(self) >= float(np.float32(other))

    def __lt__(self, other):
        return float(self) < float(np.float32(other))

    def __eq__(self, other):
        return float(self) == float(np.float32(other))


class Divisor(int):
    """A number that may be 0 where others are divided by it, as in float64."""

    def __rtruediv__(self, other):
        return other / int(self) if self else float("inf")


def test_samples_without_a_value_are_left_out(dataset):
    ages = [row(number)["age"] for number in range(ROWS)]
    for text, holds in [
        ("age > 10", lambda age: age is not None and age > 10),
        ("not age > 10", lambda age: age is not None and not age > 10),
        ("not age in (6, 7)", lambda age: age is not None and age not in (6, 7)),
        ("age not in (6, 7)", lambda age: age is not None and age not in (6, 7)),
        ("age is None", lambda age: age is None),
        ("age is not None and age < 9", lambda age: age is not None and age < 9),
    ]:
        expected = [number for number, age in enumerate(ages) if holds(age)]
        assert samples_where(dataset, text).ids.tolist() == expected, text


def test_a_split_is_a_column(dataset):
    train = samples_where(dataset, "split == 'train'").ids.tolist()
    assert len(train) == ROWS // 2
    assert samples_where(dataset, "split != 'val'").ids.tolist() == train
    assert samples_where(dataset, "'train' == split and 'val' != split").ids.tolist() == train
    wide = samples_where(dataset, "width >= 10 and split == 'train'").ids.tolist()
    assert wide == [number for number in train if 8 + number % 7 >= 10]
    assert samples_where(dataset, "split in ('train', 'val')").ids.tolist() == list(range(ROWS))


REFUSED = [
    ("width >", "invalid syntax"),
    ("width > 10 else", "invalid syntax"),
    ("__import__('os').system('true') == 0", "expected comparisons of fields, joined by and, or"),
    ("open('x') == 1", "expected comparisons of fields"),
    ("(lambda: 1)() > 0", "expected comparisons of fields"),
    ("[n for n in (1, 2)] == 1", "expected comparisons of fields"),
    ("image.shape > 3", "expected a field, len.field., field.width or field.height"),
    ("width ** 2 > 3", "expected comparisons of fields"),
    ("width", "expected a comparison, got width"),
    ("width and height > 1", "expected a comparison, got width"),
    ("not width == 'a'", "expected a number: only classes with names are compared"),
    ("plain == 'cat'", "expected a number: only classes with names are compared"),
    ("kind > 'cat'", "expected == or != with the name of a class"),
    ("kind + 'cat' > 1", "expected a number, got 'cat'"),
    ("split > 'train'", "expected == or != with the name of a split"),
    ("split == kind", "expected == or != with the name of a split"),
    ("kind in 'cat'", r"expected the values in parentheses, such as \(1, 2\), got 'cat'"),
    ("kind in ()", "expected the values in parentheses"),
    ("old > 1", "expected == or != with truth values, got old"),
    ("old == 1", "expected two numbers, or two truth values, to compare, got 1"),
    ("old < (id > 3)", "expected == or != with truth values"),
    ("split is None", "expected == or != with the name of a split, got split"),
    ("kind in (id, 2)", "expected numbers or names of classes in parentheses, got id"),
    ("old in (1, 0)", "expected a number before in, got old"),
    ("id > 0x" + "f" * 4000, "expected a number of at most 64 bits, got 0xf+[.]{3};"),
    ("age is 3", "expected None after is, got 3"),
    ("plain.width > 3", "field 'plain' has no width: it is not an image or mask"),
    ("id > 99999999999999999999", "expected a number of at most 64 bits"),
    ("id > 2j", "expected a number, True, False, or text in quotes, got 2j"),
    ("len(kind, plain) > 1", "expected a field, len"),
    ("len(score) > 1", "has no length"),
    ("tokens > 1", "is not one number per sample"),
    ("id > 100", "the condition 'id > 100' holds for no sample of the dataset"),
    ("not " * 900 + "old", "nested too deeply"),
    ("(" * 300 + "old" + ")" * 300 + " and old", "too many nested parentheses"),
    ("id > 1 or " * 500 + "old", "it has 5003 characters, and at most 4096 fit"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED, ids=[text[:40] for text, _ in REFUSED])
def test_other_text_is_rejected_with_the_reason(dataset, text, why):
    with pytest.raises(UsageError, match=why):
        samples_where(dataset, text)


UNKNOWN = [
    ("widht > 3", "there is no field 'widht'"),
    ("kind == 'cow'", "there is no class 'cow'"),
    ("split == 'trian'", "there is no split 'trian', did you mean 'train'"),
]


@pytest.mark.parametrize(("text", "why"), UNKNOWN)
def test_unknown_names_are_rejected_with_the_known_ones(dataset, text, why):
    with pytest.raises(UnknownNameError, match=why):
        samples_where(dataset, text)


def test_text_is_a_split_a_condition_or_a_path():
    for text in CONDITIONS:
        assert is_condition(text) or text == "old"
    for text in ("train", "./a == b", "/data/a < b.txt", "~/in x.txt", "ids.txt", "sub/val.txt"):
        assert not is_condition(text)
        assert is_split_name(text) == (text == "train")


def test_a_column_that_comes_often_is_read_once(dataset, monkeypatch):
    """Also before `in`: memory does not grow with the length of the text."""
    read = []
    numbers = type(dataset).numbers
    monkeypatch.setattr(
        type(dataset), "numbers", lambda self, name: read.append(name) or numbers(self, name)
    )
    text = " or ".join(f"plain == {n} or kind in ('cat', {n})" for n in range(90))
    assert len(samples_where(dataset, text).ids) == ROWS
    assert read == ["plain", "kind"]


def test_a_condition_reads_at_most_sixteen_columns(tmp_path):
    fields = [schema.scalar(f"n{n}", "int32") for n in range(17)]
    write(tmp_path / "wide", fields, [{field.name: 1 for field in fields}])
    with open_dataset(tmp_path / "wide") as wide:
        text = " and ".join(f"n{n} == 1" for n in range(16))
        assert samples_where(wide, text).ids.tolist() == [0]
        with pytest.raises(UsageError, match="it reads more than 16 columns"):
            samples_where(wide, text + " and n16 == 1")
