"""Fixtures of the tests of stoker.order."""

from collections.abc import Callable

import pytest

from stoker.protocol.spec import OrderSpec, StreamSpec


@pytest.fixture
def make_spec() -> Callable[..., StreamSpec]:
    """Make a StreamSpec; `order` takes the fields of an OrderSpec."""

    def make(rows: int = 100, batch: int = 8, order: dict | None = None, **fields) -> StreamSpec:
        return StreamSpec(
            dataset="content:" + "0" * 32,
            dataset_rows=rows,
            pipeline="0" * 32,
            batch_size=batch,
            order=OrderSpec(**(order or {})),
            **fields,
        )

    return make


@pytest.fixture
def uniform_z() -> Callable[..., float]:
    """Standard deviations by which the chi-square of counts exceeds its mean for equal counts."""

    def z(counts) -> float:
        expected = sum(counts) / len(counts)
        assert expected >= 5, "too few draws for a chi-square"
        chi = sum((count - expected) ** 2 for count in counts) / expected
        free = len(counts) - 1
        return (chi - free) / (2 * free) ** 0.5

    return z
