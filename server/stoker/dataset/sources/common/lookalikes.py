"""Names that look the same: they differ only in case, blanks or Unicode form.

macOS writes names in another Unicode form than people type, and hand-made labels mix `Cat` and
`cat`. Such names are never joined, because they may be meant; packing warns about them.
"""

import unicodedata
from collections.abc import Iterable, Iterator

_INVISIBLE = "Cf"
"""Unicode category of characters without a form of their own, such as zero-width spaces."""


def look_of(name: str) -> str:
    """Return a text that is the same for names that look the same."""
    text = unicodedata.normalize("NFKC", name).casefold()
    seen = (char for char in text if unicodedata.category(char) != _INVISIBLE)
    return " ".join("".join(seen).split())


def remarks_on_lookalikes(names: Iterable[str], what: str = "classes") -> Iterator[str]:
    """Yield a line about names that look the same, if there are any."""
    first: dict[str, str] = {}
    pairs = []
    for name in names:
        earlier = first.setdefault(look_of(name), name)
        if earlier != name:
            pairs.append((earlier, name))
    if pairs:
        more = f" (and {len(pairs) - 1} more)" if len(pairs) > 1 else ""
        yield (
            f"the {what} {shown_pair(*pairs[0])}{more} differ only in case, blanks or Unicode "
            f"form, and stay different {what}; if they are one, rename them"
        )


def shown_pair(one: str, other: str) -> str:
    """Return two names so that people see the difference."""
    same = unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)
    show = ascii if same else repr
    return f"{show(one)} and {show(other)}"
