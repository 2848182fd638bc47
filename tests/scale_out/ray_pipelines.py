"""The pipeline of the daemons in `scenes`."""

from stoker.pipeline import pipeline


@pipeline
def tensors(sample):
    return {"pixels": sample.pixels, "label": sample.label}
