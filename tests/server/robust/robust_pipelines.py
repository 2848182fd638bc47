"""Pipelines for the daemon's tests: one that is fine, and some that hang on request."""

from stoker.pipeline import pipeline


@pipeline
def labels(sample):
    return {"label": sample.label}
