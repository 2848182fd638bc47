"""FFCV's guide by FFCV itself: `benchmarks/ffcv_guide.py`, with the real modules of FFCV.

    FFCV/bin/python benchmarks/peers/guide_with_ffcv.py --images 50000 --epochs 20

Its options and its table are those of that script. The interpreter also needs scikit-image.
"""

import importlib
import sys
from pathlib import Path

MODULES = (
    "fields",
    "fields.decoders",
    "loader",
    "pipeline.allocation_query",
    "pipeline.compiler",
    "pipeline.operation",
    "pipeline.state",
    "transforms",
    "writer",
)

for name in MODULES:
    sys.modules[f"stoker.compat.ffcv.{name}"] = importlib.import_module(f"ffcv.{name}")
compiler = sys.modules["stoker.compat.ffcv.pipeline.compiler"].Compiler
compiler.get_iterable = compiler.get_iterator  # the guide's name for this module

sys.path.append(str(Path(__file__).parents[1]))
importlib.import_module("ffcv_guide").main()
