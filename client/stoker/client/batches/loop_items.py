"""The items of a loop: each batch itself, or some of its entries as a tuple or dict."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stoker.client.batches.batch import Batch
from stoker.protocol.errors import UsageError

Names = Sequence[str]


def receiving(
    as_tuple: Names | None, as_dict: bool | Names | None, outputs: Iterable[str]
) -> Callable[[Batch], Any]:
    """Return the function that makes of a batch what a loop receives.

    Args:
        as_tuple: names of entries, whose values are a tuple; None: no tuple.
        as_dict: names of entries, which are a dict; True: all entries; None or False: no dict.
        outputs: names of the stream's outputs.

    Raises:
        UsageError: both are given, or a name is not one of a batch.
    """
    known = [*outputs, "index", "requested", "valid"]
    if as_tuple is not None:
        if as_dict is not None and as_dict is not False:
            raise UsageError(
                f"as_tuple={as_tuple!r} and as_dict={as_dict!r}: expected only one of them; leave "
                "one out"
            )
        listed = _checked("as_tuple", as_tuple, known)
        return lambda batch: tuple(batch[name] for name in listed)
    if as_dict is None or as_dict is False:
        return lambda batch: batch
    if as_dict is True:
        return dict
    chosen = _checked("as_dict", as_dict, known)
    return lambda batch: {name: batch[name] for name in chosen}


def _checked(option: str, names: object, known: list[str]) -> tuple[str, ...]:
    """Return the names of an option, if there are some and a batch has all of them."""
    if not isinstance(names, str | Sequence) or not names:
        also = ", or True for all" if option == "as_dict" else ""
        raise UsageError(
            f"{option}={names!r}: expected names of outputs, such as {tuple(known[:2])!r}{also}"
        )
    listed = (names,) if isinstance(names, str) else tuple(names)
    for name in listed:
        if name not in known:
            raise UsageError(
                f"{option}: the batches have no output {name!r}; they have {', '.join(known)}"
            )
    return listed
