"""Code of an op that names another generator than its key is refused when a pipeline is bound."""

import importlib
import re
from pathlib import Path

import pytest

from stoker.ops import registered
from stoker.ops.contract.registry import choices
from stoker.ops.custom.purity import check_purity, impurities
from stoker.protocol.errors import BuildError


@pytest.fixture(scope="module")
def random_ops(user_folder):
    return importlib.import_module("random_ops")


@pytest.mark.parametrize(
    ("op", "function", "name"),
    [
        ("RunNumpy", "run_numpy", "numpy.random"),
        ("PlainPython", "plain_python", "random"),
        ("PlainNested", "plain_nested", "numpy.random.normal"),
        ("DrawImported", "draw_imported", "random.randint"),
        ("PlainHelper", "helper", "numpy.random.Generator"),
        ("RandomParameters", "RandomParameters.params", "secrets"),
    ],
)
def test_another_generator_is_refused_by_line(random_ops, op, function, name):
    with pytest.raises(BuildError) as caught:
        check_purity(getattr(random_ops, op))
    found = re.match(
        rf".*random_ops\.py:(\d+): {function} uses {name}, so a row", str(caught.value)
    )
    assert found, caught.value
    assert "# here" in Path(random_ops.__file__).read_text().splitlines()[int(found[1]) - 1]


def test_the_key_is_allowed(random_ops):
    check_purity(random_ops.ByKey)


def test_ours_name_none():
    ours = [
        op for op in (*registered().values(), *choices().values()) if "stoker." in op.__module__
    ]
    assert len(ours) > 40
    assert [(op.name, use) for op in ours for use in impurities(op)] == []
