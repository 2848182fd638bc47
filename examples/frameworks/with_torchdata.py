"""Save and load the place in the data by the protocol of torchdata, in the middle of an epoch.

python examples/frameworks/with_torchdata.py PACKED [--epochs 2]

Code that saves a StatefulDataLoader saves a Loader: both are `Stateful`.
"""

from typing import Any

from pictures import arguments, options
from torchdata.stateful_dataloader import Stateful

from stoker.client import Loader


def saved(parts: dict[str, Any]) -> dict[str, Any]:
    """Return the states of those parts of a training that have one."""
    return {name: part.state_dict() for name, part in parts.items() if isinstance(part, Stateful)}


def main() -> None:
    """Stop after three batches; a new Loader goes on with the next one."""
    given = arguments()
    with Loader(given.place, **options()) as loader:
        whole = [batch.index.tolist() for _ in range(given.epochs) for batch in loader]
    with Loader(given.place, **options()) as loader:
        for batch in loader:
            if batch.step == 2:
                break
        states = saved({"data": loader, "seed": 0})
    with Loader(given.place, **options()) as loader:
        loader.load_state_dict(states["data"])
        rest = [batch.index.tolist() for _ in range(given.epochs) for batch in loader]
    print(f"continued at batch 3: {rest == whole[3:]}")


if __name__ == "__main__":
    main()
