"""`stoker warm`: what it compiled, a process that comes later only loads."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import simplejpeg
import skimage.data
from caches import cache_without
from commands import call

from stoker.dataset import schema
from stoker.dataset.packing.build import write_dataset
from stoker.jit import activity
from stoker.pipeline.compiled import warm_kernels
from stoker.server.commands.compile_progress import compile_progress

HERE = Path(__file__).parent
PROGRESS = re.compile(r"compiling: \d+ of \d+ functions, \d+ s")
WANTED = ("execute-", "permute-", "permute_into-")
LATER = """
import sys
from stoker.jit import set_cache_root
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.compiled.loop import compile_loop
from stoker.server.rows.subject import open_subject
set_cache_root(sys.argv[1])
with open_subject("command_pipelines:labels", sys.argv[2], [sys.argv[3]]) as subject:
    compile_plan(subject.plan)
fast = compile_loop()
print(sum(fast.stats.cache_hits.values()), sum(fast.stats.cache_misses.values()))
"""


WARM = """
import sys
from stoker.server.__main__ import main
sys.argv[:1] = ["stoker", "warm"]
main()
"""
DECODED = """
import sys
import numpy as np
from stoker.dataset import open_dataset
from stoker.dataset.images.jpeg.decoding.plane_bands import decode_planes
from stoker.jit import compiled, set_cache_root
set_cache_root(sys.argv[1])
with open_dataset(sys.argv[2]) as dataset:
    dataset.decode("image", 0, np.zeros(100_000, np.uint8))
stats = compiled(decode_planes).stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


@pytest.fixture
def root(tmp_path, kernel_cache):
    return cache_without(WANTED, kernel_cache, tmp_path / "kernels")


@pytest.mark.slow
def test_a_warmed_pipeline_is_loaded(photos, root, python):
    named = ["--pipeline", "command_pipelines:labels", "--dataset", photos]
    flags = [*named, "--python-path", HERE, "--cache-root", root]
    command = [sys.executable, "-m", "stoker.server", "warm", *map(str, flags)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=150)
    told = done.stdout
    assert "command_pipelines:labels: compiled\n" in told
    progress = done.stderr.splitlines()
    assert progress
    assert [line for line in progress if not PROGRESS.fullmatch(line)] == []
    assert f"kernels are in {root}; " in told
    assert all(list(root.glob(f"{name}*/code/*")) for name in WANTED)
    before = sorted(os.walk(root))
    assert python(LATER, str(root), str(photos), str(HERE), warm=True) == "1 0"
    assert sorted(os.walk(root)) == before


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_one_line_shows_the_progress_and_goes(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(activity, "_functions", {})
    times = iter([0, 1, 1.1, 2])
    with compile_progress(lambda: next(times)):
        activity.expect(["a", "b"])
        for done in (None, "a", "b"):
            activity.finished(done) if done else None
            activity.progressed()
        first, last = "compiling: 0 of 2 functions, 1 s", "compiling: 2 of 2 functions, 2 s"
        assert sys.stderr.getvalue() == f"\r{first}\r{last}"
    assert sys.stderr.getvalue().endswith("\r" + " " * len(last) + "\r")


@pytest.mark.slow
@pytest.mark.parametrize(("jpeg", "told"), [("auto", True), ("libjpeg", False)])
def test_all_ops_come_with_the_decoder_of_jpegs(jpeg, told, kernel_cache, monkeypatch):
    for name in ("op_calls", "batch_calls"):  # all of them take minutes
        monkeypatch.setattr(warm_kernels, name, list)
    code, printed, _ = call("warm", "--all-ops", "--cache-root", kernel_cache, STOKER_JPEG=jpeg)
    assert code == 0
    assert "ops: 0 functions compiled" in printed
    assert ("decoder of JPEGs: compiled" in printed) == told
    assert not told or list(kernel_cache.glob("prepare-*/code/*.nbc"))


@pytest.mark.slow
def test_only_pipelines_that_need_other_kernels_of_jpegs_compile_them(
    photos, kernel_cache, tmp_path, python
):
    jpeg = simplejpeg.encode_jpeg(skimage.data.astronaut()[:80, :96].copy())
    fields = schema.Schema((schema.image("image", "planes"),))
    planes = tmp_path / "planes"
    write_dataset(planes, fields, [{"image": jpeg}])

    def compiled(dataset, decoder, names):
        """Warm a cache without these kernels; return it, and which of them it has then."""
        root = cache_without(names, kernel_cache, tmp_path / decoder)
        flags = ["--pipeline=command_pipelines:dark", f"--dataset={dataset}"]
        flags += [f"--python-path={HERE}", f"--cache-root={root}"]
        python(WARM, *flags, warm=True, STOKER_JPEG=decoder)
        return root, [name for name in names if list(root.glob(f"{name}*/code/*"))]

    assert compiled(photos, "stoker", ("decode_planes-", "decode_reduced-"))[1] == []
    root, made = compiled(planes, "libjpeg", ("decode-", "decode_planes-"))
    assert made == ["decode_planes-"]
    assert python(DECODED, str(root), str(planes), warm=True) == "1 0"
