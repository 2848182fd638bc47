"""The check behind `pytest --check-slow`: the marker `slow` is on every test that costs much.

A test is slow if it compiles a kernel, in its own process or in one that it starts, or if it takes
more than `LIMIT_S` of processor time. Its setup counts, and so do the child processes it has waited
for. A fixture of wider scope counts for the first test that uses it. Wall time does not count,
because other processes keep CPUs busy.

The kernel cache is empty when the run starts, so what a test compiles does not depend on earlier
runs. Limits: once a kernel is compiled, later tests of the same process load it at no cost.
"""

import os
import re
from collections.abc import Generator
from pathlib import Path

import pytest

LIMIT_S = 3.0
"""More than the second of the marker, because a busy machine takes longer for the same test."""
_KERNEL = re.compile(r".+-[0-9a-f]{32}")


class CheckSlow:
    """A pytest plugin that fails unmarked tests which compile or take long.

    Args of the constructor:
        limit_s: processor seconds of an unmarked test.
    """

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self.kernels: Path | None = None  # the fixture `kernel_cache` sets it
        self._limit_s = limit_s
        self._spent_s = 0.0
        self._compiled: frozenset[str] = frozenset()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        """Note what was spent and compiled before this test."""
        self._spent_s, self._compiled = _spent_s(), self._names()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fail the test if it passed, is not marked and costs too much."""
        result = yield
        if item.get_closest_marker("slow") is None:
            new = sorted(self._names() - self._compiled)
            spent_s = _spent_s() - self._spent_s
            if new:
                names = ", ".join(new[:3]) + (", ..." if new[3:] else "")
                pytest.fail(
                    f"expected no compiled kernels of a test without the marker slow, got"
                    f" {len(new)} ({names}): add @pytest.mark.slow",
                    pytrace=False,
                )
            if spent_s > self._limit_s:
                pytest.fail(
                    f"expected at most {self._limit_s:g} CPU-s of a test without the marker slow,"
                    f" got {spent_s:.1f}: add @pytest.mark.slow, or make the test cheaper",
                    pytrace=False,
                )
        return result

    def _names(self) -> frozenset[str]:
        """Return the file names of the kernels in the cache."""
        if self.kernels is None:
            return frozenset()
        return frozenset(name for name in os.listdir(self.kernels) if _KERNEL.fullmatch(name))


def _spent_s() -> float:
    """Return the processor seconds of this process and of the children it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
