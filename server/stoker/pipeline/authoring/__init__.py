"""The user's side: `@pipeline`, lists per field, choices, frames, outputs, in-process calls.

The top room of the package, with `policies`: it may import everything below, and imports the
engines only when a pipeline is called in process. No numba at import.
"""
