"""Pipelines for the daemon's tests: one that is fine, and some that misbehave."""

import os
import select
import subprocess

import numpy as np

from stoker import ops
from stoker.ops import define
from stoker.pipeline import pipeline


@define()
def divides(src, dst, params, record, scratch):
    """By 0."""
    dst[...] = src
    dst[0, 0, 0] = np.uint8(src.shape[0] % (src.shape[1] - 24))


@define()
def leaves_its_memory(src, dst, params, record, scratch):
    """Writes behind its result."""
    dst[...] = src
    dst[dst.shape[0], 0, 0] = np.uint8(77)


@pipeline
def labels(sample):
    return {"label": sample.label}


def sleeping(image):
    """Sleep."""
    select.select([], [], [], 3600)
    return image


def slow(image):
    """Take a moment."""
    select.select([], [], [], 0.2)
    return image


@pipeline
def huge(sample):
    large = ops.resize(sample.image, size=(20000, 20000))
    return {"image": ops.resize(ops.horizontal_flip(large), size=(8, 8)), "label": sample.label}


def looping(image):
    """Never end."""
    while True:
        image = image + 1


@pipeline
def sleeps(sample):
    return {"image": ops.python(sleeping, sample.image, randomness="none")}


@pipeline
def loops(sample):
    return {"image": ops.python(looping, sample.image, randomness="none")}


@pipeline
def slowly(sample):
    return {"image": ops.python(slow, sample.image, randomness="none"), "label": sample.label}


def forking(image):
    """Start a process, or one in each of four ways, and write down which ones."""
    started = [os.fork()]
    if not started[0]:
        select.select([], [], [], 3600)
        os._exit(0)
    if os.environ["STOKER_TEST_RUN"]:
        command = ["sleep", "3600"]
        started.append(subprocess.Popen(command).pid)
        started.append(subprocess.Popen(command, start_new_session=True).pid)
        daemon = "setsid sleep 3600 > /dev/null 2>&1 & echo $!"
        started.append(int(subprocess.run(["sh", "-c", daemon], stdout=-1, check=True).stdout))
    with open(os.environ["STOKER_TEST_PIDS"], "a", encoding="utf-8") as file:
        file.write(" ".join(map(str, [os.getpid(), *started])) + "\n")
    return image


def closing(image):
    """Close descriptors, of one image."""
    if int(image.sum()) == int(os.environ.get("STOKER_TEST_SUM", "-1")):
        os.closerange(3, 256)
    return image


def hanging(image):
    """Wait without end, again and again, for one image."""
    while int(image.sum()) == int(os.environ.get("STOKER_TEST_HANG", "-1")):
        select.select([], [], [], float(os.environ["STOKER_TEST_PAUSE_S"]))
    return image


def waiting(image):
    """Make a file, and wait until it is gone; for one image."""
    if int(image.sum()) == int(os.environ.get("STOKER_TEST_WAIT", "-1")):
        with open(os.environ["STOKER_TEST_BEGUN"], "w", encoding="utf-8"):
            pass
        while os.path.exists(os.environ["STOKER_TEST_BEGUN"]):
            select.select([], [], [], 0.01)
    return image


def hoarding(image):
    """Allocate without end, for one image."""
    hoard = []
    while int(image.sum()) == int(os.environ.get("STOKER_TEST_HOARD", "-1")):
        hoard.append(np.ones(2**24, np.uint8))
    return image


@pipeline
def hoards(sample):
    return {"image": ops.python(hoarding, sample.image, randomness="none"), "label": sample.label}


@pipeline
def waits(sample):
    return {"image": ops.python(waiting, sample.image, randomness="none"), "label": sample.label}


@pipeline
def hangs(sample):
    return {"image": ops.python(hanging, sample.image, randomness="none"), "label": sample.label}


@pipeline
def wide(sample):
    return {"image": ops.resize(sample.image, size=(1024, 1024)), "label": sample.label}


@pipeline
def forks(sample):
    return {"image": ops.python(forking, sample.image, randomness="none"), "label": sample.label}


@pipeline
def closes(sample):
    return {"image": ops.python(closing, sample.image, randomness="none"), "label": sample.label}


@pipeline
def divided(sample):
    return {"image": divides()(sample.image)}


@pipeline
def outside(sample):
    return {"image": leaves_its_memory()(sample.image)}
