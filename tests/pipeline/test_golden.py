"""Golden hashes: the bytes of one full pipeline, and of one that chooses, frozen.

A change here is a new version of an op or contract, never a new hash alone.
"""

from __future__ import annotations

import hashlib

import numpy as np

from stoker import ops
from stoker.ops import State
from stoker.pipeline import Row, one_of, pipeline, some_of
from stoker.pipeline.graph.normal import pipeline_id
from stoker.pipeline.planning.planner import bind

PIPELINE_ID = "0612aeeeb7c059774b431854f40192e1"
# (seed, id, epoch, visit, view) -> BLAKE2b-128 of all outputs, one after the other
GOLDEN = {
    (0, 0, 0, 0, 0): "ba4d8dbe5d4f8019885963a419c51e08",
    (2**64 - 1, 123456789012, 7, 0, 0): "90c696e8b9bf0a6f95f718f8845e4744",
    (5, 17, 1, 3, 2): "db2f4db62f513e98e63db2b4ca3d3142",
}
CHOOSING_ID = "e95925a029607439844c7d28d45b15eb"
CHOICES = {
    (0, 0, 0, 0, 0): "918b87d6693195d1edf9018f93d59e46",
    (7, 123456789012, 3, 0, 1): "1e03fa57f87b1c9801becea05a1505e5",
    (5, 17, 1, 3, 2): "611254a3f615e6b638c42077c058e246",
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


@pipeline
def choosing(sample, ctx):
    image, mask = one_of(
        sample.image,
        sample.mask,
        choices=[ops.HorizontalFlip(1.0), ops.VerticalFlip(1.0), None],
        weights=(1, 2, 1.5),
    )
    image = some_of(image, choices=[ops.Invert(1.0), ops.Solarize(), ops.Posterize()], n=(1, 2))
    if ctx.chance(0.4):
        image, mask = ops.rot90(image, mask, turns=2, p=1.0)
    level, number = ctx.uniform(-1.5, 2.5), ctx.integer(-5, 40)
    return {"image": image, "mask": mask, "level": level, "number": number}


def hashes(plan, fields, both, rows):
    found = {}
    for words in rows:
        (outputs,) = both(plan, [Row(*words)], [fields[name] for name in plan.fields])
        joined = b"".join(output.tobytes() for output in outputs)
        found[words] = hashlib.blake2b(joined, digest_size=16).hexdigest()
    return found


def test_golden_hashes(varied, photo, both):
    graph = full.graph()
    assert pipeline_id(graph) == PIPELINE_ID
    plan = bind(graph, varied)
    fields = {
        "image": photo[0],
        "mask": photo[1],
        "label": np.int64(4),
        "weight": np.float32(0.25),
    }
    assert hashes(plan, fields, both, GOLDEN) == GOLDEN


def test_golden_hashes_of_choices(photo, both):
    graph = choosing.graph()
    assert pipeline_id(graph) == CHOOSING_ID
    states = {
        "image": State.fixed("image", "uint8", photo[0].shape),
        "mask": State.fixed("mask", "uint8", photo[1].shape),
    }
    fields = {"image": photo[0], "mask": photo[1]}
    assert hashes(bind(graph, states), fields, both, CHOICES) == CHOICES
