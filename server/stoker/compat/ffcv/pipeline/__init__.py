"""FFCV's contract of operations: state, memory, code."""

from stoker.compat.ffcv.pipeline.allocation_query import AllocationQuery
from stoker.compat.ffcv.pipeline.compiler import Compiler
from stoker.compat.ffcv.pipeline.operation import Operation
from stoker.compat.ffcv.pipeline.state import State

__all__ = ["AllocationQuery", "Compiler", "Operation", "State"]
