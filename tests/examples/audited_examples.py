"""The loaders of the examples, for `stoker audit`: made by the example's own code.

An example runs until it makes its loader. That call is repeated with the seed and the rank that the
audit asks for. The address of the daemon is in AUDITED_ADDRESS.
"""

import functools
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
FLAGS = {
    "segmentation/train": ["--classes", "classes.json", "--dataset", "pictures"],
    "multi_crop/multi_crop": ["--locals", "2"],
    "independent_client/train": ["--classes", "2"],
}
"""Example -> its arguments after the address."""


class _Made(BaseException):
    """The call that makes the loader; not an Exception, so that no framework handles it."""


@functools.cache
def _call_of(example: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Run an example until it makes its loader; return its module and the arguments."""
    folder, _, name = example.rpartition("/")
    sys.path.insert(0, str(EXAMPLES / folder))
    sys.argv = [name, os.environ["AUDITED_ADDRESS"], *FLAGS.get(example, [])]
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}
    Path("classes.json").write_text(json.dumps({"labels": ["dark", "bright"], "mask_classes": 3}))
    module = importlib.import_module(name)
    kind = "Stream" if hasattr(module, "Stream") else "Loader"

    def stop(*args: Any, **options: Any) -> None:
        raise _Made(args, options)

    original = getattr(module, kind)
    setattr(module, kind, stop)
    try:
        module.main()
    except _Made as made:
        args, options = made.args
        return module, args, options
    finally:
        setattr(module, kind, original)
    raise AssertionError(f"{example} made no {kind}")


def of_example(example: str, seed: int = 0, rank: int = 0, world_size: int = 1) -> Any:
    """Return the loader of an example, with that seed and for that rank."""
    module, args, options = _call_of(example)
    if hasattr(module, "Stream"):
        return _Epochs(module, module.Stream(*args, seed=seed, cut=(rank, world_size), **options))
    options = options | {"seed": seed, "rank": rank, "world_size": world_size}
    loader = module.Loader(*args, **options)
    return module.as_dataloader(loader) if hasattr(module, "as_dataloader") else loader


class _Epochs:
    """The epochs of the independent client's stream as loops, of arrays."""

    def __init__(self, module: Any, stream: Any) -> None:
        self.module, self.stream, self.epoch = module, stream, 0

    def __iter__(self) -> Any:
        epoch, self.epoch = self.epoch, self.epoch + 1  # a loop that is left ends its epoch too
        for batch in self.stream.epoch(epoch):
            arrays = batch.arrays.items()
            yield {name: self.module.numpy_array(array).copy() for name, array in arrays}


def __getattr__(name: str) -> Any:
    """Return the factory of an example: `audited_examples:frameworks_plain_pytorch`."""
    for path in EXAMPLES.glob("*/*.py"):
        if name == f"{path.parent.name}_{path.stem}":
            return functools.partial(of_example, f"{path.parent.name}/{path.stem}")
    raise AttributeError(name)
