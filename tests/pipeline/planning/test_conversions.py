"""cast, layout and one_hot inside pipelines: labels and masks for torch's losses, both engines."""

import numpy as np

from stoker import ops
from stoker.pipeline import pipeline


@pipeline
def targets(sample):
    image = ops.pad_to_size(sample.image, size=(40, 50))
    mask = ops.pad_to_size(sample.mask, size=(40, 50), mask_fill=255)
    return {
        "planes": ops.layout(image),
        "floats": ops.layout(ops.cast(image, dtype="float16")),
        "numbers": ops.cast(mask, dtype="int64"),
        "hot": ops.layout(ops.one_hot(mask, classes=5)),
        "label": ops.cast(sample.label, dtype="float64"),
        "vector": ops.one_hot(sample.label, classes=4, dtype="float16"),
        "next": ops.one_hot(sample.label + 1, classes=4, dtype="uint8"),
    }


def test_targets_are_numpys(both, rows):
    draw = np.random.default_rng(0)
    image = draw.integers(0, 256, (31, 47, 3), dtype=np.uint8)
    mask = draw.integers(0, 5, (31, 47), dtype=np.uint8)
    label = np.int32(2)
    plan = targets.plan_for({"image": image, "mask": mask, "label": label})
    (got,) = both(
        plan, rows[:1], [{"image": image, "mask": mask, "label": label}[f] for f in plan.fields]
    )
    found = dict(zip([output.name for output in plan.outputs], got, strict=True))
    wide = np.pad(image, ((0, 9), (0, 3), (0, 0))).transpose(2, 0, 1)
    classes = np.pad(mask, ((0, 9), (0, 3)), constant_values=255)
    eye = np.vstack([np.eye(5), np.zeros((251, 5))])
    assert (found["planes"] == wide).all()
    assert found["floats"].dtype == np.float16
    assert (found["floats"] == wide).all()
    assert found["numbers"].dtype == np.int64
    assert (found["numbers"] == classes).all()
    assert (found["hot"] == eye[classes].transpose(2, 0, 1)).all()
    assert found["label"] == 2.0
    assert found["label"].dtype == np.float64
    assert found["vector"].tolist() == [0, 0, 1, 0]
    assert found["next"].tolist() == [0, 0, 0, 1]
