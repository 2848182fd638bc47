"""FFCV operations in a Stoker pipeline."""

from ffcv_ops import DeclaredMean, Shift  # noqa: F401
from guide_script import PickACornerParallel

from stoker import ops
from stoker.compat.ffcv.operation_function import OperationFunction
from stoker.pipeline import pipeline

CORNER = OperationFunction(PickACornerParallel())
SHIFT = OperationFunction(Shift("loop"))


@pipeline
def train(sample):
    image = ops.python("pipeline_ops:CORNER", sample.image, size=(3, 4))
    return {"image": ops.python("pipeline_ops:SHIFT", image)}


@pipeline
def stored(sample):
    return {"image": sample.image}
