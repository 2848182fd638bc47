"""The items of a loop: each batch itself, or some of its entries as a tuple or dict."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stoker.client.batches.batch import Batch
from stoker.protocol.errors import UsageError

Names = Sequence[str]


class LoopItems:
    """What a loop receives, as the user asks for it.

    Made before a stream is opened, so that a mistake costs nothing; `of` needs its outputs.
    """

    def __init__(self, as_tuple: Names | None, as_dict: bool | Names | None) -> None:
        """Check both options.

        Args:
            as_tuple: names of entries, whose values are a tuple; None: no tuple.
            as_dict: names of entries, which are a dict; True: all entries; None or False: no dict.

        Raises:
            UsageError: both are given, or one is not a list of names.
        """
        self._as_dict = as_dict is not None and as_dict is not False
        if as_tuple is not None and self._as_dict:
            raise UsageError(
                f"as_tuple={as_tuple!r} and as_dict={as_dict!r}: expected only one of them; leave "
                "one out"
            )
        self._names: tuple[str, ...] | None = None
        if as_tuple is not None:
            self._names = _listed("as_tuple", as_tuple)
        elif self._as_dict and as_dict is not True:
            self._names = _listed("as_dict", as_dict)

    def of(self, outputs: Iterable[str]) -> Callable[[Batch], Any]:
        """Return the function that makes of a batch what a loop receives.

        Args:
            outputs: names of the stream's outputs.

        Raises:
            UsageError: a name is not one of a batch.
        """
        names, known = self._names, [*outputs, "index", "requested", "valid"]
        for name in names or ():
            if name not in known:
                raise UsageError(
                    f"{'as_dict' if self._as_dict else 'as_tuple'}: the batches have no output "
                    f"{name!r}; they have {', '.join(known)}"
                )
        if names is None:
            return dict if self._as_dict else lambda batch: batch
        if self._as_dict:
            return lambda batch: {name: batch[name] for name in names}
        return lambda batch: tuple(batch[name] for name in names)


def _listed(option: str, names: object) -> tuple[str, ...]:
    """Return the names of an option, if there are some."""
    listed = (names,) if isinstance(names, str) else names
    if (
        not isinstance(listed, Sequence)
        or not all(isinstance(name, str) and name for name in listed)
        or not listed
    ):
        also = ", or True for all" if option == "as_dict" else ""
        raise UsageError(
            f"{option}={names!r}: expected names of outputs, such as ('image', 'label'){also}"
        )
    return tuple(listed)
