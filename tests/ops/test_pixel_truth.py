"""Pixel truth: the mask painted into an image, both transformed by one decision, must agree."""

import numpy as np
import pytest

from stoker.ops import make, registered

FILLED = {name for name, op in registered().items() if "mask_fill" in op.__dataclass_fields__}


def joint(name):
    kernels = registered()[name].kernels
    return "image" in kernels and "mask" in kernels


def test_ops_that_take_image_and_mask_are_known():
    assert {name for name in registered() if joint(name)} >= {
        "center_crop",
        "horizontal_flip",
        "random_crop",
        "random_resized_crop",
        "resize",
    }


@pytest.mark.slow
def test_mask_and_image_agree(example, run_op, noise):
    if not joint(example.name):
        assert example.forward is None, "an op that moves points must move image and mask"
        return
    compared = 0
    for seed in range(12):
        draw = np.random.default_rng(seed)
        height, width = (int(v) for v in draw.integers(20, 90, 2))
        blocks = draw.integers(0, 2, (4, 4), dtype=np.uint8)
        mask = np.kron(blocks, np.ones((-(-height // 4), -(-width // 4)), np.uint8))
        mask = np.ascontiguousarray(mask[:height, :width])
        image = np.stack([mask * 255, 255 - mask * 255, noise((height, width))], -1)
        op = matching_fill(example)
        done = run_op(op, [("image", image), ("mask", mask)], seed)
        painted, after = done.outputs
        sure = (painted[..., 0] % 255 == 0) & (painted[..., 1] == 255 - painted[..., 0])
        assert (after[sure] == painted[..., 0][sure] // 255).all()
        compared += int(sure.sum())
    assert compared > 500


def matching_fill(op):
    """Fill image and mask with the same thing: class 1, painted."""
    if op.name not in FILLED:
        return op
    return make(op.name, {**op.params_data(), "fill": (255, 0, 0), "mask_fill": 1})


def test_joint_values_share_one_record(run_op, noise):
    """The mask does not see another decision when it is alone, first or last."""
    mask, image = noise((40, 50)), noise((40, 50, 3))
    for name in ("horizontal_flip", "random_crop", "random_resized_crop"):
        op = make(name, {} if name == "horizontal_flip" else {"size": 20})
        for key in range(10):
            alone = run_op(op, [("mask", mask)], key).outputs[0]
            last = run_op(op, [("image", image), ("mask", mask)], key).outputs[1]
            first = run_op(op, [("mask", mask), ("image", image)], key).outputs[0]
            assert (alone == last).all()
            assert (alone == first).all()


def test_masks_never_get_a_new_class(example, run_op):
    if "mask" not in example.kernels:
        return
    mask = np.where(np.random.default_rng(0).integers(0, 2, (61, 47)) == 1, 3, 250).astype(np.uint8)
    fill = getattr(example, "mask_fill", 3)
    for key in range(20):
        done = run_op(example, [("mask", mask)], key)
        if done.states[0].kind == "mask":
            assert set(np.unique(done.outputs[0])) <= {3, 250, fill}
