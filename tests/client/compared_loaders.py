"""A pipeline and other loaders for the tests of `stoker compare`."""

import signal

import numpy as np

from stoker.pipeline import pipeline


@pipeline
def numbers(sample):
    return {"label": sample.label}


def lists(workers):
    return [{"label": np.arange(8), "names": ["a"] * 8, "scale": 2.0}] * 100


def larger_batches():
    return [np.zeros((16, 3))] * 100


def read_once():
    return iter([np.zeros((8, 3))] * 3)


def empty():
    return []


def without_rows():
    return [3.5]


def raises():
    raise FileNotFoundError("no photos here")


def hangs():
    yield np.zeros((8, 3))
    signal.pause()
