"""`stoker warm`: what it compiled, a process that comes later only loads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.protocol.errors import UsageError
from stoker.server.commands.warm import warm

HERE = Path(__file__).parent
LATER = """
import sys
from stoker.jit import set_cache_root
from stoker.pipeline.compiled.executor import compile_plan
from stoker.server.rows.subject import open_subject
set_cache_root(sys.argv[1])
with open_subject("command_pipelines:labels", sys.argv[2], [sys.argv[3]]) as subject:
    fast = compile_plan(subject.plan)._machine._execute.func
print(sum(fast.stats.cache_hits.values()), sum(fast.stats.cache_misses.values()))
"""


@pytest.mark.slow
def test_a_warmed_pipeline_is_loaded(photos, tmp_path):
    def call(*arguments):
        command = [sys.executable, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=150)
        return done.stdout

    root = tmp_path / "kernels"
    named = ["--pipeline", "command_pipelines:labels", "--dataset", photos]
    told = call("-m", "stoker.server", "warm", *named, "--python-path", HERE, "--cache-root", root)
    assert "command_pipelines:labels: compiled\n" in told
    assert f"kernels are in {root}; " in told
    assert {path.name.partition("-")[0] for path in root.iterdir()} >= {"execute"}
    before = sorted(os.walk(root))
    assert call("-c", LATER, root, photos, HERE) == "1 0\n"
    assert sorted(os.walk(root)) == before


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "give --pipeline and --dataset, or --all-ops, or all three"),
        (("--pipeline", "a:b"), "--pipeline and --dataset belong together: give both"),
        (("--dataset", "x", "--all-ops"), "--pipeline and --dataset belong together: give both"),
    ],
)
def test_what_to_warm_must_be_said(flags, message, run):
    with pytest.raises(UsageError, match=message):
        run(warm, *flags)
