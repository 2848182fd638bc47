"""`check_op`, the contract tests for users: passes what is right, finds each thing that is not."""

import importlib

import numpy as np
import pytest

from stoker import ops
from stoker.ops import StateError
from stoker.ops._testing.runner import ContractError
from stoker.ops.testing import check_op

BROKEN = {
    "LeavesAPart": "the compiled image kernel leaves parts of dst",
    "OtherThanPlain": "the image kernel, compiled, gives other bytes than its plain form",
    "ChangesItsSource": "the image kernel changed its source",
    "WritesBeyondScratch": "the image kernel wrote outside of scratch: declare more bytes",
    "DrawsInSecret": "draw reads its key, but `random` is false",
    "DrawsOnItsBoxes": "draw changed the boxes that it reads",
    "LeavesAField": "it does not write a field",
    "TakesAnyKind": "declare accepts a kind that no kernel has a rule for",
    "DeclaresAnotherSize": r"it declared image uint8\[5x5x3\], but out_size gives",
    "NotInPlace": "the image kernel gives other bytes in place",
    "ScratchShrinks": "scratch for image uint8.* is smaller than",
    "ChangesAtZero": "p is 0, but the image changes",
    "PointsElsewhere": r"forward and the mask kernel disagree: output pixel \(0, 0\) is source",
    "TooFewNumbers": "forward gives 6 numbers, expected nine",
    "OnlyNearlyAffine": "affine is True, but forward is projective",
    "OneMore": "the boxes kernel returns",
    "SaysLess": "the boxes kernel writes more items than it says",
    "ForgetsAParameter": r"built again from its plain parameters \{\}, it is another",
}
GIVEN = {"ForgetsAParameter": {"by": 2}}


@pytest.fixture(scope="module")
def broken_ops(user_folder):
    return importlib.import_module("broken_ops")


def test_a_users_op_that_is_right_passes(custom_ops, broken_ops):
    values = [[("image", image), ("mask", image[..., 0].copy())] for image in images()]
    check_op(custom_ops.PickACorner(p=0.7), values, rows=4)
    check_op(broken_ops.Copy())
    check_op(broken_ops.Mirror())
    check_op(broken_ops.FirstBox())


@pytest.mark.parametrize("name", ["HorizontalFlip", "Invert"])
def test_ops_of_ours_pass(name):
    check_op(getattr(ops, name)(p=0.5), rows=3)


@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_the_contract_is_found(broken_ops, name):
    with pytest.raises(ContractError, match=BROKEN[name]):
        check_op(getattr(broken_ops, name)(**GIVEN.get(name, {})), rows=2)


def test_values_must_be_given_where_no_noise_fits(broken_ops):
    with pytest.raises(StateError, match="has rules for array only: pass trial values with va"):
        check_op(broken_ops.ArraysOnly())
    check_op(broken_ops.ArraysOnly(), [[("array", np.arange(12.0).reshape(3, 4))]], rows=2)


def images():
    draw = np.random.default_rng(0)
    return [draw.integers(0, 256, (h, w, 3), dtype=np.uint8) for h, w in ((2, 3), (9, 20))]
