"""FFCV's contract of operations: `State`, `AllocationQuery`, `Compiler`, `Operation`, and more.

Names and arguments are FFCV's. Scripts and every other room of `compat.ffcv` import it. It must not
know fields, transforms or the loader.
"""

from stoker.compat.ffcv.pipeline.allocation_query import AllocationQuery
from stoker.compat.ffcv.pipeline.compiler import Compiler
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.pipeline_spec import PipelineSpec
from stoker.compat.ffcv.pipeline.state import State

__all__ = ["AllocationQuery", "Compiler", "Operation", "PipelineSpec", "State"]
