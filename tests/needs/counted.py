"""Steps of a pipeline that count how often they run."""

from collections import Counter

calls: Counter[str] = Counter()


def inverted(array):
    """255 - x."""
    calls["inverted"] += 1
    return 255 - array


def turned(array):
    """Turned by 180 degrees."""
    calls["turned"] += 1
    return array[::-1, ::-1].copy()
