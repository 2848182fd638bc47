"""Errors of pipelines that are written, planned or called in the wrong way: call, error, message.

In a message, " ... " separates its parts.
"""

import numpy as np
import pytest

from stoker import ops
from stoker.ops import State
from stoker.ops.contract.states import with_span
from stoker.pipeline import bind, pipeline, sample_frames
from stoker.pipeline.plain.decisions import decide
from stoker.pipeline.plain.replay_row import replay
from stoker.protocol.errors import BuildError, SampleError, UsageError
from stoker.rng.row import Row

SIZE = (32, 48)
IMAGE = np.zeros((*SIZE, 3), np.uint8)
MASK = np.zeros(SIZE, np.uint8)
LARGE = MASK.astype(np.int64) + 2**33
NAMES = ["bird", "cat", "dog"]
STATES = {
    "image": State.fixed("image", "uint8", IMAGE.shape),
    "wide_mask": State.fixed("mask", "int32", SIZE),
    "floats": with_span(State.fixed("image", "float32", IMAGE.shape), (-3.0, 900.0)),
    "label": with_span(State.fixed("label", "int64", ()), (-1, 9)),
    "heat": State.fixed("array", "float32", SIZE),
    "table": State.fixed("array", "float32", (16, 4)),
}
FREE = {
    "image": State("image", "uint8", (None, None, 3), (512, 512, 3)),
    "mask": State("mask", "uint8", (None, None), (512, 512)),
    "label": State.fixed("label", "int64", ()),
}


def built(define):
    return bind(pipeline(define).graph(), STATES)


def run(define, *, given=None, **fields):
    """Run a pipeline in process; `given` has its other arguments."""
    return pipeline(define)(fields, **(given or {}))


def same(sample):
    return {"image": sample.image, "mask": sample.mask}


def fitted(sample):
    return {"image": ops.fit_bucket(sample.image)}


def cropped():
    def define(sample):
        image, mask = ops.random_crop(sample.image, sample.mask, size=8)
        return {"image": ops.invert(image) if sample.label == 1 else image, "mask": mask}

    return bind(pipeline(define).graph(), FREE)


def decided(sizes, label=1):
    return decide(cropped(), Row(1, 2, 3), sizes, {} if label is None else {"label": label})


def replayed(**fields):
    plan = cropped()
    return replay(plan, Row(3, 1, 1), [fields[name] for name in plan.fields])


def is_named(name, **given):
    """Compare a label with the name of a class."""
    return run(lambda s: {"x": s.label == name}, label=1, given=given)


ERRORS = [
    # Written
    (lambda: ops.HorizontalFlip().applied, BuildError,
     "horizontal_flip.applied: expected to be read in a"),
    (lambda: ops.unlinked(3), BuildError, "ops.unlinked: expected ... got 3"),
    (lambda: pipeline(3), BuildError, "expected a function of a sample, got int"),
    (lambda: pipeline(lambda sample, other: {}), BuildError,
     "expected a function of one argument ... one of 2"),
    (lambda: pipeline(type("Empty", (), {})), BuildError, "class Empty has no method define"),
    (lambda: setattr(pipeline(same), "views", 3), UsageError,
     "pipeline 'same': setting 'views' would change nothing"),
    # Planned
    (lambda: built(lambda s: {"boxes": s.table, "image": ops.resize(s.image, size=(8, 8))}),
     BuildError, "resize moves output 'image', but not output 'boxes'"),
    (lambda: built(lambda s: {"image": ops.normalize(s.floats)}), BuildError,
     "are of floats from 0 to 1, but the image has ... 900 in"),
    (lambda: built(lambda s: {"image": ops.horizontal_flip(s.image), "half": s.heat}), BuildError,
     "has the size of the image"),
    (lambda: built(lambda s: {"label": ops.one_hot(s.label, classes=9)}), BuildError,
     "classes=9, but the label has numbers up to 9"),
    (lambda: built(lambda s: {"mask": ops.cast(s.wide_mask, dtype="uint8")}), BuildError,
     "test_pipeline_errors.py: ... : cast on mask int32 ... holds"),
    (lambda: decided({"image": (50, 50), "mask": (50, 50)}, label=None), UsageError,
     "'label' is label int64[]: give its value in scalars"),
    (lambda: decided({}), UsageError, "field 'image' is image ... : give its height and width"),
    (lambda: decided({"image": (90, 90), "mask": (90, 91)}), SampleError,
     "one height and width ... , got 90x90 and 90x91"),
    (lambda: decided({"image": (513, 50), "mask": (513, 50)}), SampleError,
     "this sample's size is 513x50"),
    (lambda: replayed(image=IMAGE, mask=MASK[:9], label=np.int64(4)), SampleError,
     "got 32x48 and 9x48"),
    # Called with a sample
    (lambda: is_named("cat"), BuildError,
     "label == 'cat': the field 'label' has no names ... classes={\"label\": [...]}"),
    (lambda: is_named("cat", classes={"lable": NAMES}), UsageError,
     "expected a label or keypoints among label, and a"),
    (lambda: is_named("cat", classes={"label": "cat"}), UsageError,
     "expected a label or keypoints among label, and a"),
    (lambda: is_named("zzzzzz", classes={"label": NAMES}), BuildError,
     "no such class. The classes"),
    (lambda: run(fitted, image=IMAGE), BuildError,
     "and there are no buckets: pass buckets= to the Loader"),
    (lambda: run(fitted, image=IMAGE, given={"bucket": (0, 5)}), UsageError,
     "bucket: expected (width, height) in pixels, or"),
    (lambda: run(fitted, image=IMAGE, given={"bucket": (5,)}), UsageError,
     "bucket: expected (width, height) in pixels, or"),
    (lambda: run(fitted, image=IMAGE, given={"bucket": "7"}), UsageError,
     "bucket: expected (width, height) in pixels, or"),
    (lambda: run(lambda s: {"image": sample_frames(s, frames=2).image}, image=IMAGE), UsageError,
     "pass a list of frames, as in"),
    (lambda: run(lambda s: {"image": ops.hue(s.image)}, image=IMAGE[:0]), UsageError,
     "expected pixels in the image, got shape (0, 48, 3)"),
    (lambda: run(lambda s, ctx: {"x": s.label * ctx.bucket_width}, label=1), BuildError,
     "there are no buckets"),
    (lambda: run(same, image=IMAGE, mask=LARGE), UsageError,
     "class numbers that fit int32, got 8589934592 to 8589934592"),
    (lambda: run(same, image=[IMAGE] * 2, mask=[MASK] * 3), UsageError,
     "same: ... every list of frames, but image has 2, mask"),
    (lambda: run(same, image=[IMAGE] * 2, mask=[MASK, MASK[:9]]), UsageError,
     "field 'mask': expected frames of one shape"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[row[-1][:60] for row in ERRORS])
def test_errors(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert all(part in str(caught.value) for part in message.split(" ... ")), str(caught.value)
