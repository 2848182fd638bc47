"""Golden hashes: the bytes of one full pipeline, frozen.

A change here is a new version of an op or contract, never a new hash alone.
"""

from __future__ import annotations

import hashlib

import numpy as np

from stoker import ops
from stoker.pipeline import Row, pipeline
from stoker.pipeline.plan import bind

PIPELINE_ID = "0612aeeeb7c059774b431854f40192e1"
# (seed, id, epoch, visit, view) -> BLAKE2b-128 of all outputs, one after the other
GOLDEN = {
    (0, 0, 0, 0, 0): "ba4d8dbe5d4f8019885963a419c51e08",
    (2**64 - 1, 123456789012, 7, 0, 0): "90c696e8b9bf0a6f95f718f8845e4744",
    (5, 17, 1, 3, 2): "db2f4db62f513e98e63db2b4ca3d3142",
}


@pipeline
def full(sample):
    image, mask = ops.random_resized_crop(
        sample.image, sample.mask, size=(96, 80), scale=(0.2, 1.0), interpolation="bicubic"
    )
    image, mask = ops.horizontal_flip(image, mask)
    bright = sample.weight * 2 > 1
    if bright or sample.label == 4:
        image = ops.color_jitter(image, brightness=0.3, contrast=0.2, saturation=0.2)
    image = ops.normalize(
        image,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        dtype="float16",
        layout="CHW",
    )
    return {"image": image, "mask": mask, "label": sample.label, "bright": bright}


def test_golden_hashes(varied, photo, both):
    graph = full.graph()
    assert graph.pipeline_id == PIPELINE_ID
    plan = bind(graph, varied)
    fields = {
        "image": photo[0],
        "mask": photo[1],
        "label": np.int64(4),
        "weight": np.float32(0.25),
    }
    found = {}
    for words in GOLDEN:
        (outputs,) = both(plan, [Row(*words)], [fields[name] for name in plan.fields])
        joined = b"".join(output.tobytes() for output in outputs)
        found[words] = hashlib.blake2b(joined, digest_size=16).hexdigest()
    assert found == GOLDEN
