"""The samples that a stream takes of a dataset, and how often; and the digests of several.

A plain stream has one selection, a mixture one for each dataset. Ids of a mixture are those of its
datasets, one after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from stoker.order.repeat import Weighting
from stoker.order.select import Remaining
from stoker.protocol.canonical import canonical_digest
from stoker.protocol.exclude import Excluded


@dataclass(frozen=True)
class Selected:
    """The samples of a dataset that a stream visits.

    Attributes:
        rows: number of samples in the dataset.
        excluded: those that are left out.
        weighting: the weights of the others; None if each comes once in an epoch.
    """

    rows: int
    excluded: Excluded = field(default_factory=lambda: Excluded(()))
    weighting: Weighting | None = None

    @property
    def count(self) -> int:
        """Number of samples that it visits."""
        return self.rows - len(self.excluded)

    @property
    def weights(self) -> str | None:
        """Digest of the weights; None without weights."""
        return None if self.weighting is None else self.weighting.digest

    def remaining(self, first_id: int = 0) -> Remaining:
        """Return the samples by place.

        Args:
            first_id: the stream's id of the dataset's sample 0.

        Raises:
            UsageError: the exclude list belongs to another dataset, or leaves no sample.
        """
        return Remaining(self.rows, self.excluded, first_id)


def exclude_of(exclude: Sequence[str | None]) -> str | None:
    """Return the field `exclude` of the spec, from the digests of all datasets' exclude lists."""
    if len(exclude) == 1 or not any(exclude):
        return exclude[0]
    count = sum(int(digest.partition(":")[0]) for digest in exclude if digest)
    return f"{count}:{canonical_digest(list(exclude))}"


def weights_of(weights: Sequence[str | None]) -> str | None:
    """Return the field `order.weights` of the spec, from the digests of all datasets' weights."""
    if len(weights) == 1 or not any(weights):
        return weights[0]
    return canonical_digest(list(weights))
