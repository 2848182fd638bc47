"""Which decoder serves gridded JPEGs: the change in mid-stream, and what prevents it.

A sample tells the decoders apart: libjpeg-turbo shows it, and Stoker's own decoder calls it
damaged. No packer writes such a file, because the checksums in its grid are those of the damage.
"""

import contextlib
import dataclasses
import os
import shutil
import signal
import tempfile
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from caches import cache_without
from counting import counters, wait_for
from daemons import descendants, serving, state

from stoker import ops
from stoker.client import Loader
from stoker.dataset import schema
from stoker.dataset.images.jpeg import rewrite
from stoker.dataset.images.jpeg.checksums import checksums_of
from stoker.dataset.images.jpeg.decoding import BoxDecoder
from stoker.dataset.limits import CodecError
from stoker.dataset.packing.build import write_dataset
from stoker.jit import cache_root
from stoker.pipeline import pipeline

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_private_daemons")]
OPTIONS = {"batch_size": 3, "device": "numpy", "seed": 5}


@pipeline
def crops(sample):
    return {"image": ops.random_resized_crop(sample.image, size=32)}


@pipeline
def whole_images(sample):
    return {"image": ops.resize(sample.image, size=(24, 40))}


@pipeline
def reduced_images(sample):
    return {"image": ops.resize(sample.image, size=(24, 40), decode="scaled")}


def with_grid(photographs, version=2):
    """Return rewritten files."""
    made = [rewrite(simplejpeg.encode_jpeg(pixels, 85)) for pixels in photographs.values()]
    if version == 2:
        return made
    return [without_checksums(one) for one in made]


def without_checksums(made):
    return dataclasses.replace(made, grid=dataclasses.replace(made.grid, checksums=None))


def shown_by_libjpeg_alone(made, size):
    """Return a damaged form of a file that one decoder shows and the other refuses."""
    decoder, out = BoxDecoder(), np.empty(3 * size[0] * size[1], np.uint8)
    rng, layout = np.random.default_rng(3), memoryview(without_checksums(made).grid.to_bytes())
    for _ in range(2000):
        broken = bytearray(made.data)
        broken[int(rng.integers(made.grid.offsets[0], len(broken) - 2))] ^= 1
        data, asked = bytes(broken), (size, (0, 0, *size), 0, (out, 0, 3 * size[1]))
        try:
            simplejpeg.decode_jpeg(data)
        except ValueError:
            continue
        try:
            decoder.decode(memoryview(data), layout, *asked)
        except CodecError:
            sums = checksums_of(data, made.grid.to_bytes())
            grid = dataclasses.replace(made.grid, checksums=sums)
            return dataclasses.replace(made, data=data, grid=grid)
    raise AssertionError("no such form was found")


def packed(folder, files):
    """Pack files as they are, with their grids."""
    with pytest.MonkeyPatch.context() as patch:
        left = list(files)
        patch.setattr("stoker.dataset.images.gridding.rewrite", lambda _: left.pop(0))
        rows = [{"image": made.data} for made in files]
        write_dataset(folder, schema.Schema((schema.image(grid=True),)), rows)
    assert not left
    return folder


@pytest.fixture(scope="module")
def datasets(tmp_path_factory, photographs):
    """Paths: `old` has grids of version 1, `new` of 2; `odd` and `odd-old` the tell-tale."""
    folder, new = tmp_path_factory.mktemp("datasets"), with_grid(photographs)
    size = next(iter(photographs.values())).shape[:2]
    odd = shown_by_libjpeg_alone(new[0], size)
    return {
        "new": packed(folder / "new", new),
        "old": packed(folder / "old", with_grid(photographs, version=1)),
        "odd": packed(folder / "odd", [odd]),
        "odd-old": packed(folder / "odd-old", [without_checksums(odd)]),
    }


@pytest.fixture
def serve(datasets, monkeypatch):
    """Run a daemon with a decoder and fail points."""

    @contextlib.contextmanager
    def run(jpeg, fail_points=""):
        monkeypatch.setenv("STOKER_TESTING_FAIL_POINTS", fail_points)
        flags = [f"--dataset={name}={path}" for name, path in datasets.items()]
        flags += [f"--jpeg={jpeg}", "--workers=2"]
        with tempfile.TemporaryDirectory() as folder, serving(Path(folder), *flags) as daemon:
            yield daemon

    return run


def digests(batches):
    return [(one.stream_id, one.index.tolist(), one.image.tobytes()) for one in batches]


def stopped_below(pid):
    """Return the descendants of a process that a signal has stopped, once there is one."""
    found = []
    wait_for(lambda: found.extend(one for one in descendants(pid) if state(one) == "T") or found)
    return found


def shows_the_tell_tale(daemon, dataset="odd", wanted=whole_images):
    """Return whether the decoder that serves shows it."""
    options = {**OPTIONS, "batch_size": 1, "on_error": "mask"}
    with Loader(daemon.address, dataset=dataset, pipeline=wanted, **options) as loader:
        (batch,) = loader
        return bool(batch.valid.all())


@pytest.mark.parametrize("wanted", [crops, whole_images, reduced_images])
def test_the_decoder_changes_in_mid_stream_and_no_byte_does(serve, datasets, monkeypatch, wanted):
    seen = {}
    for way in ("libjpeg", "stoker"):
        monkeypatch.setenv("STOKER_JPEG", way)
        with Loader(str(datasets["new"]), pipeline=wanted, workers=1, **OPTIONS) as loader:
            seen[way] = digests(batch for _ in range(3) for batch in loader)
    assert len(seen["stoker"]) == 6
    with serve("auto", "decoder_compiler.start:stop:1") as daemon:
        with Loader(daemon.address, dataset="new", pipeline=wanted, **OPTIONS) as loader:
            found = digests(loader)
            (compiler,) = stopped_below(daemon.pid)
            tell = whole_images if wanted is crops else wanted
            assert shows_the_tell_tale(daemon, wanted=tell), "libjpeg-turbo serves meanwhile"
            assert counters(daemon.address)["own_decoder"] == 0
            batches = iter(loader)
            found += digests([next(batches)])
            os.kill(compiler, signal.SIGCONT)
            wait_for(lambda: counters(daemon.address)["own_decoder"])
            assert not shows_the_tell_tale(daemon, wanted=tell)
            assert shows_the_tell_tale(daemon, "odd-old", tell), "libjpeg-turbo keeps version 1"
            found += digests(batches)
            found += digests(loader)
        daemon.logged("own_decoder_ready")
    assert seen["libjpeg"] == seen["stoker"] == found


@pytest.mark.parametrize(
    ("jpeg", "dataset"), [("libjpeg", "new"), ("auto", "old"), ("stoker", "new")]
)
def test_nothing_is_compiled_beside_the_work(serve, jpeg, dataset):
    """Nor for files of version 1: of these, the decoders may find different ones damaged."""
    with serve(jpeg) as daemon:
        with Loader(daemon.address, dataset=dataset, pipeline=crops, **OPTIONS) as loader:
            assert len([batch for _ in range(2) for batch in loader]) == 4
        assert counters(daemon.address)["decoder_compilations_total"] == 0
        assert shows_the_tell_tale(daemon) == (jpeg != "stoker")


def test_libjpeg_goes_on_if_the_compiler_is_killed(serve):
    with serve("auto", "decoder_compiler.done:kill:1") as daemon:
        with Loader(daemon.address, dataset="new", pipeline=crops, **OPTIONS) as loader:
            first = digests(loader)
            wait_for(lambda: "libjpeg-turbo decodes until" in daemon.log.read_text())
            assert len(digests(loader)) == len(first) == 2
        assert shows_the_tell_tale(daemon)
        log = daemon.log.read_text()
        assert log.count("own_decoder_failed") == log.count("killed by SIGKILL") == 4
        assert counters(daemon.address)["decoder_compilations_total"] == 4


def test_a_compiler_that_is_stopped_for_good_is_replaced(serve, monkeypatch):
    """Each compiler stops; the first one is ended, and the second one is woken."""
    monkeypatch.setenv("STOKER_WORKERS_BUILD_DEADLINE_S", "12")
    with serve("auto", "decoder_compiler.start:stop:1") as daemon:
        with Loader(daemon.address, dataset="new", pipeline=crops, **OPTIONS) as loader:
            list(loader)
            (first,) = stopped_below(daemon.pid)
            wait_for(lambda: state(first) != "T")
            (second,) = stopped_below(daemon.pid)
            os.kill(second, signal.SIGCONT)
            wait_for(lambda: counters(daemon.address)["own_decoder"])
            list(loader)
        assert not shows_the_tell_tale(daemon)
        log = daemon.logged("own_decoder_failed")
        assert "its compiler made no progress for 12 s: no stack trace was written" in log
        assert "its process may be stopped" in log
        assert "it is compiled again soon" in log


def without_decoder(kernels):
    """Return the folders of a cache that have the decoder's two kernels."""
    found = [path for name in ("prepare", "decode") for path in kernels.glob(f"{name}-*")]
    assert len(found) >= 2
    return found


def continued(daemon, points):
    """Let compilers that stop at fail points go on."""
    for _ in range(points):
        (compiler,) = stopped_below(daemon.pid)
        os.kill(compiler, signal.SIGCONT)


@pytest.mark.as_a_user
def test_a_cache_that_is_emptied_before_workers_load_the_decoder(serve, tmp_path, monkeypatch):
    kernels = cache_without(("decode_planes-",), cache_root(), tmp_path / "kernels")
    monkeypatch.setenv("STOKER_DAEMON_CACHE_ROOT", str(kernels))
    points = "decoder_compiler.start:stop:1,decoder_compiler.done:stop:1"
    with serve("auto", points) as daemon:
        with Loader(daemon.address, dataset="new", pipeline=crops, **OPTIONS) as loader:
            before = digests(loader)
            continued(daemon, 1)
            (compiler,) = stopped_below(daemon.pid)
            lost = without_decoder(kernels)
            for path in lost:
                path.rename(tmp_path / path.name)
            os.kill(compiler, signal.SIGCONT)
            log = daemon.logged("own_decoder_failed")
            assert "the kernel cache had lost it when worker" in log
            assert "it is compiled again soon" in log
            assert counters(daemon.address)["own_decoder"] == 0
            assert shows_the_tell_tale(daemon), "libjpeg-turbo goes on"
            for path in lost:
                shutil.copytree(tmp_path / path.name, path, dirs_exist_ok=True)
            continued(daemon, 2)
            wait_for(lambda: counters(daemon.address)["own_decoder"])
            assert len(digests(loader)) == len(before)
        assert not shows_the_tell_tale(daemon)
    assert not list(kernels.glob("decode_planes-*")), "bit planes are no part of the decoder"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_daemon_that_ends_leaves_no_compiler(serve, number):
    with serve("auto", "decoder_compiler.start:stop:1") as daemon:
        with Loader(daemon.address, dataset="new", pipeline=crops, **OPTIONS) as loader:
            list(loader)
            (compiler,) = stopped_below(daemon.pid)
        daemon.stop(number)
        wait_for(lambda: not state(compiler))


def test_a_private_daemon_changes_and_leaves_no_compiler(datasets, monkeypatch):
    monkeypatch.setenv("STOKER_JPEG", "auto")
    monkeypatch.setenv("STOKER_TESTING_FAIL_POINTS", "decoder_compiler.start:stop:1")
    with Loader(str(datasets["new"]), pipeline=crops, workers=1, **OPTIONS) as loader:
        list(loader)
        (compiler,) = stopped_below(os.getpid())
    wait_for(lambda: not state(compiler))


REFUSES = """
import sys
from stoker.jit import activity, set_cache_root
from stoker.protocol.errors import ResourceError
from stoker.server.work.work_records import DecoderRequest
from stoker.server.workers.decoder_compiler import compile_for_workers

set_cache_root(sys.argv[1])
activity.note_unstored("kernel cache /kernels: No space left on device")
try:
    compile_for_workers(DecoderRequest(1))
except ResourceError as error:
    print(error.message)
"""


def test_a_decoder_that_cannot_be_stored_is_not_compiled(tmp_path, python):
    root = tmp_path / "kernels"
    said = python(REFUSES, str(root), warm=True)
    assert said.startswith("kernel cache /kernels: No space left on device: the decoder of JPEGs")
    assert "free some space, or choose another folder with daemon.cache_root" in said
    assert not list(root.glob("*/*/*.nbi"))
