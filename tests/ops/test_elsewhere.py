"""A name that `stoker.ops` does not have: the error says which one is meant."""

import re

import pytest

import stoker.pipeline
from stoker import ops
from stoker.ops.contract.elsewhere import ELSEWHERE, missing_message


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("resise", "did you mean ops.resize?"),
        ("HorizontalFlp", "did you mean ops.HorizontalFlip?"),
        ("RandomHorizontalFlip", "did you mean ops.HorizontalFlip?"),
        ("horizontalflip", "did you mean ops.horizontal_flip?"),
        ("random_hflip", "use ops.horizontal_flip"),
        ("GaussNoise", "use ops.gaussian_noise"),
        ("RandomSizedBBoxSafeCrop", "use ops.bbox_safe_random_crop, and ops.resize after it"),
        ("CopyAndPaste", "use ops.copy_paste"),
        ("random_apply", "use stoker.pipeline.random_apply"),
        ("xyzzy", "docs/ops.md lists the ops"),
    ],
)
def test_the_hint(name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"stoker.ops has no {name!r}") + ".*") as e:
        getattr(ops, name)
    assert hint in str(e.value)


def test_tools_that_probe_attributes_are_not_disturbed() -> None:
    assert not hasattr(ops, "__wrapped__")
    with pytest.raises(ImportError, match="cannot import name 'resise'"):
        from stoker.ops import resise  # noqa: F401, PLC0415


@pytest.mark.parametrize("key", ELSEWHERE)
def test_what_the_table_names_exists(key: str) -> None:
    """And the table has no name that exists, or that cannot be found."""
    named = re.findall(r"(ops|pipeline)\.(\w+)", ELSEWHERE[key])
    assert named or key == "boundingboxes"
    for room, name in named:
        assert hasattr(ops if room == "ops" else stoker.pipeline, name)
    assert not hasattr(ops, key)
    assert key == re.sub(r"^random|_", "", key.lower())
    assert ELSEWHERE[key] in missing_message(key, ops.__all__)
