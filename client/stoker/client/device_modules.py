"""Modules of torch that change outputs after the transfer, on the device of the batches.

The argument `on_device` of a Loader. A module gets one output of a batch, a tensor (rows, ...) on
the device, and returns a tensor of as many rows. It runs on the stream of the transfer, up to
`device.AHEAD` batches before the caller asks for them, without gradients. What it does is no part
of the stream: neither of its id, nor of digests, replays or `Loader.row`.

Modules may draw from torch's default generators. Those are seeded for each batch by the stream id,
epoch, step and rank, and put back afterwards: so prefetching, resuming and reconnecting change no
draw, and the training's own draws are those that it would have without modules. Unlike the draws of
a pipeline these belong to a place in a batch, not to a sample: another number of ranks changes
them.
"""

import contextlib
import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from stoker.protocol.errors import UsageError
from stoker.protocol.slot_layout import Output

ONLY_IMAGE: Final = ""
"""In place of the name of an output: the one that is an image."""

Modules = Sequence[Any] | Mapping[str, Any]
Chains = dict[str, tuple[Any, ...]]
"""Name of an output, or `ONLY_IMAGE` -> its modules, in order."""


def checked_modules(given: Modules | None) -> Chains:
    """Return the modules of each output; none for None, and for an empty list or dict.

    Raises:
        UsageError: it is not a list of modules, or a dict of output to module or list.
    """
    if given is None:
        return {}
    by_name = given if isinstance(given, Mapping) else {ONLY_IMAGE: given}
    chains = {name: _chain(name, modules) for name, modules in by_name.items()}
    return {name: chain for name, chain in chains.items() if chain}


def _chain(name: str, modules: object) -> tuple[Any, ...]:
    torch = sys.modules.get("torch")  # a caller with a module has imported it
    kind = torch.nn.Module if torch else ()
    where = _where(name)
    if isinstance(modules, kind) and name != ONLY_IMAGE:
        return (modules,)
    if not isinstance(modules, Sequence) or isinstance(modules, str):
        raise UsageError(
            f"{where}={modules!r}: expected a list of torch.nn.Module, or a dict of an output's"
            " name to such a list"
        )
    for number, module in enumerate(modules):
        if not isinstance(module, kind):
            raise UsageError(
                f"{where}[{number}]={module!r}: expected an object of torch.nn.Module, got"
                f" {type(module).__name__}; put a function into the forward() of a Module, and"
                " give an object, not a class"
            )
    return tuple(modules)


def _where(name: str) -> str:
    return "on_device" if name == ONLY_IMAGE else f"on_device[{name!r}]"


class BatchModules:
    """The modules of a stream, on their device."""

    def __init__(
        self, torch: Any, chains: Chains, device: Any, outputs: Iterable[Output], stream: str,
        rank: int,
    ) -> None:  # fmt: skip
        """Find the outputs, and move the modules to the device.

        Args:
            torch: the module torch.
            chains: what `checked_modules` returned.
            device: a torch.device.
            outputs: of the stream.
            stream: its id.
            rank: of this loader.

        Raises:
            UsageError: there is no such output, or its rows make no single tensor.
        """
        self._torch = torch
        self._device = device
        self._chains = {_output(name, list(outputs)): chain for name, chain in chains.items()}
        self._seed = f"{stream}/{rank}".encode()
        for chain in self._chains.values():
            for module in chain:
                module.to(device)

    def __call__(self, tensors: Mapping[str, Any], place: tuple[int, int]) -> dict[str, Any]:
        """Return the tensors of a batch, changed.

        Args:
            tensors: by name, on the device.
            place: epoch and step.

        Raises:
            UsageError: a module returned something else than a tensor of as many rows.
            Exception: any that a module raises, with a note that names the module.
        """
        changed = dict(tensors)
        with self._torch.no_grad(), self._seeded(place):
            for name, chain in self._chains.items():
                for number, module in enumerate(chain):
                    changed[name] = self._run(name, number, module, changed[name])
        return changed

    def _run(self, name: str, number: int, module: Any, tensor: Any) -> Any:
        what = f"on_device: module {number} ({type(module).__name__}) of output {name!r}"
        got = f"{tensor.dtype} {tuple(tensor.shape)} on {tensor.device}"
        try:
            result = module(tensor)
        except Exception as error:
            error.add_note(f"{what} raised this. It got {got}")
            raise
        if not isinstance(result, self._torch.Tensor) or result.shape[:1] != tensor.shape[:1]:
            shape = getattr(result, "shape", None)
            came = type(result).__name__ if shape is None else f"a tensor {tuple(shape)}"
            raise UsageError(
                f"{what}: expected a tensor of {len(tensor)} rows, since it got {got}; it returned"
                f" {came}"
            )
        return result

    @contextlib.contextmanager
    def _seeded(self, place: tuple[int, int]) -> Iterator[None]:
        """Seed torch's generators for a batch, and put them back."""
        hashed = hashlib.blake2b(self._seed + f"/{place[0]}/{place[1]}".encode(), digest_size=8)
        seed = int.from_bytes(hashed.digest(), "little") >> 1
        generators = [self._torch.default_generator]
        if self._device.type == "cuda":
            generators.append(self._torch.cuda.default_generators[self._device.index])
        states = [generator.get_state() for generator in generators]
        try:
            for generator in generators:
                generator.manual_seed(seed)
            yield
        finally:
            for generator, state in zip(generators, states, strict=True):
                generator.set_state(state)


def _output(name: str, outputs: Sequence[Output]) -> str:
    """Return the name of the output that a chain of modules changes."""
    plain = [o.name for o in outputs if not o.items and o.form == "stack"]
    if name == ONLY_IMAGE:
        images = [o.name for o in outputs if o.kind == "image" and o.name in plain]
        if len(images) == 1:
            return images[0]
        there = "several images" if images else "no image of one size"
        example = (images or plain or ["NAME"])[0]
        raise UsageError(
            f"on_device: a list of modules is for the only image, and the batches have {there}:"
            f" {', '.join(images or plain)}. Name the output: on_device={{{example!r}: [...]}}"
        )
    if name not in plain:
        there = ", ".join(plain) or "none"
        apart = any(output.name == name for output in outputs)
        reason = "its rows differ in shape" if apart else "the batches have no such output"
        raise UsageError(f"{_where(name)}: {reason}; modules take one tensor for all rows: {there}")
    return name
