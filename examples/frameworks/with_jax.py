"""Train with JAX: batches of NumPy arrays are pytrees, and the step is compiled once.

python examples/frameworks/with_jax.py PACKED [--epochs 2]
"""

from typing import Any

import jax
import jax.numpy as jnp
from pictures import BATCH_SIZE, SIDE, arguments, floats

from stoker.client import Loader

Params = dict[str, Any]


def loss_of(params: Params, batch: Any) -> Any:
    """Return the mean cross entropy of a batch."""
    images = batch["pixel_values"].reshape(len(batch["labels"]), -1)
    scores = jax.nn.log_softmax(images @ params["weight"] + params["bias"])
    return -jnp.take_along_axis(scores, batch["labels"][:, None], 1).mean()


@jax.jit
def step(params: Params, batch: Any) -> tuple[Params, Any]:
    """Return the parameters after a step of gradient descent, and the loss before it."""
    loss, gradient = jax.value_and_grad(loss_of)(params, batch)
    return jax.tree.map(lambda p, g: p - 1e-4 * g, params, gradient), loss


def main() -> None:
    """Train, and print the loss of each epoch."""
    given = arguments()
    params: Params = {"weight": jnp.zeros((3 * SIDE * SIDE, 2)), "bias": jnp.zeros(2)}
    options = {"pipeline": floats, "batch_size": BATCH_SIZE, "device": "numpy"}
    with Loader(given.place, as_dict=("pixel_values", "labels"), **options) as loader:
        for epoch in range(given.epochs):
            for batch in loader:
                params, loss = step(params, jax.device_put(batch))
            print(f"epoch {epoch}: loss {loss:.4f}")


if __name__ == "__main__":
    main()
