"""A builder compiles and counts all that workers run; a process that starts later loads it."""

import os
import subprocess
from pathlib import Path

from warm import Script

from stoker.jit import cache_root

HERE = Path(__file__).parent
WORKER = """
import itertools
import sys
import numpy as np
from command_pipelines import train
from stoker.dataset import open_dataset
from stoker.dataset.images.jpeg import splice
from stoker.order import permutation
from stoker.pipeline.engine.interface import Row
from stoker.jit import activity, compiled, set_cache_root
from stoker.server.workers.compiled_plan import compiled_plan
from stoker.server.rows.sample_reader import SampleReader
from stoker.jit.arithmetic import COMPILED

set_cache_root(sys.argv[1])
plain = (splice._cut, permutation.permute, permutation.permute_into, permutation.fill_words)
functions = [compiled(function) for function in plain]
dataset = open_dataset(sys.argv[2])
told = []
activity.listen(lambda compiling: told.append(activity.count()))
plan = compiled_plan(train.graph(), dataset)
needed = activity.count()
assert needed.done == needed.total > len(plan.decisions), needed
assert all(a <= b for a, b in itertools.pairwise(told)), told
activity.listen(None)
known = [list(f.signatures) for f in functions]
assert all(known), known
reader = SampleReader(dataset, plan.fields)
reader.read_boxes(plan, None, arithmetic=COMPILED)
reader.read(3, Row(seed=0, id=3, epoch=0))
order = permutation.Permutation(len(dataset), 0, 0, arithmetic=COMPILED)
order(1), order.many(np.arange(3))
assert [list(f.signatures) for f in functions] == known
print("nothing new")
"""


def test_a_worker_compiles_nothing(photos):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "imports": ["numba"]}
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    with Script("-c", WORKER, cache_root(), photos, **options, env=environment) as worker:
        out, err = worker.communicate(timeout=300)
    assert (out, worker.returncode) == ("nothing new\n", 0), err
