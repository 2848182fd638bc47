"""Setting an attribute of an op is an error that names the remedy; nothing else changed."""

import copy
import dataclasses
import pickle

import pytest

from stoker import ops
from stoker.ops.contract.frozen import FrozenOpError
from stoker.protocol.errors import UsageError


@dataclasses.dataclass(frozen=True)
class Mine(ops.HorizontalFlip):
    """A user's op with a parameter more."""

    amount: int = 3


@pytest.mark.parametrize("make", [ops.HorizontalFlip, Mine, lambda: Mine(amount=4)])
def test_setting_a_parameter_names_the_remedy(make):
    op = make()
    kind = type(op).__name__
    with pytest.raises(FrozenOpError) as caught:
        op.p = 1.0
    assert str(caught.value).startswith(f"{kind}.p cannot be set: pipelines that have the op keep")
    assert f"{kind}(p=1.0) or dataclasses.replace(op, p=1.0), and build the" in str(caught.value)
    assert "ctx.epoch" in str(caught.value)
    assert op == make()
    assert dataclasses.replace(op, p=1.0).p == 1.0


def test_callers_may_catch_it_as_before():
    assert issubclass(FrozenOpError, UsageError)
    assert issubclass(FrozenOpError, dataclasses.FrozenInstanceError)


def test_copies_are_equal_and_frozen_too():
    op = Mine(p=0.25, amount=9)
    for other in (copy.copy(op), copy.deepcopy(op), pickle.loads(pickle.dumps(op))):
        assert other == op
        assert hash(other) == hash(op)
        with pytest.raises(FrozenOpError):
            other.amount = 1
