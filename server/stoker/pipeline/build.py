"""Where glue lies on disk, and how it becomes machine code.

The *build key* names the file: a digest of the glue's text (the structure of the pipeline), of
every kernel it calls (sources, loaded code, numba, NumPy, llvmlite, processor). It names cache
files only; it is no part of any stream. A file is written beside its place and linked there in one
step, so a reader never sees half of it and two processes that build at once both end with one good
file; machine code is kept and locked by `stoker.rng.jit`. A file that is damaged is replaced.
numba is loaded here, and only when a glue is compiled.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from stoker.pipeline.glue import Glue
from stoker.protocol.errors import ResourceError
from stoker.rng.diskcache import kernel_digest
from stoker.rng.jit import cache_root

_loaded: dict[Path, ModuleType] = {}


def build_key(glue: Glue) -> str:
    """Return the digest that names the build, 32 hex digits."""
    kernels = sorted(kernel_digest(fn) for fn in glue.kernels if isinstance(fn, FunctionType))
    text = "\n".join([glue.text, *kernels])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def load_glue(glue: Glue) -> tuple[Path, Callable[..., Any]]:
    """Write the glue to disk unless it is there, import it, and return (file, its plain function).

    Raises:
        ResourceError: the kernel cache cannot be written.
    """
    key = build_key(glue)
    path = cache_root() / "glue" / f"glue_{key}.py"
    try:
        _write(path, glue.text)
    except OSError as error:
        raise ResourceError(
            f"kernel cache {path.parent}: cannot write there ({error.strerror}): call "
            "stoker.rng.jit.set_cache_root, or set XDG_CACHE_HOME, to a folder that can be written",
            path=str(path.parent),
        ) from None
    if path not in _loaded:
        _loaded[path] = _import(path, f"stoker_glue_{key}")
    run: Callable[..., Any] = _loaded[path].run
    return path, run


def _write(path: Path, text: str) -> None:
    data = text.encode()
    with contextlib.suppress(OSError):
        if path.read_bytes() == data:
            return
        path.unlink()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        os.unlink(name)


def _import(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ResourceError(f"{path} cannot be imported", path=str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
