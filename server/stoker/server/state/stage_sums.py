"""Sums of the stage times that workers report, for each dataset and pipeline.

Both have the names of the configuration, and all pipelines that clients send share the name
`private`; so the number of sums follows from the configuration, however many sessions come. They
never decrease: what a worker reported stays when it dies.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from stoker.protocol.messages import PRIVATE_PIPELINE, StageSum, StageTimes
from stoker.protocol.request.stream_request import StreamRequest
from stoker.server.state.clients import harmless
from stoker.server.work.work_records import Timed

MAX_PIPELINES: Final = 64
"""Pairs of a dataset and a pipeline that have sums; further ones share those of `REST`."""
MAX_STAGES: Final = 64
"""Stages of a pair; further ones count as "other"."""
REST: Final = ("other", "other")

Served = tuple[str, str]
"""Names of a dataset and of a pipeline."""


def served_names(request: StreamRequest, datasets: Mapping[str, str]) -> tuple[Served, ...]:
    """Return under which names the rows of a stream are summed, one for each of its sources.

    Args:
        request: the stream; its names are resolved.
        datasets: of the daemon; a request without a name means the only one.
    """
    return tuple(
        (source.dataset or next(iter(datasets)), source.pipeline or PRIVATE_PIPELINE)
        for source in request.sources
    )


class StageSums:
    """The sums since the start of the daemon."""

    def __init__(self) -> None:
        self._rows: dict[Served, int] = {}
        self._stages: dict[Served, dict[tuple[str, str], list[float]]] = {}

    def add(self, served: Sequence[Served], timed: Sequence[Timed]) -> None:
        """Add the times of a chunk of a stream.

        Args:
            served: names of its sources.
            timed: what the worker reported.
        """
        for part in timed:
            names = served[part.source]
            if names not in self._rows and len(self._rows) >= MAX_PIPELINES:
                names = REST
            self._rows[names] = self._rows.get(names, 0) + part.rows
            stages = self._stages.setdefault(names, {})
            for one in part.stages:
                key = one.stage, harmless(one.op)
                if key not in stages and len(stages) >= MAX_STAGES:
                    key = REST[0], ""
                seconds = stages.setdefault(key, [0.0, 0.0])
                seconds[0] += one.wall_s
                seconds[1] += one.cpu_s

    def times(self) -> list[StageTimes]:
        """Return the sums."""
        return [
            StageTimes(*names, rows, [StageSum(*key, *s) for key, s in self._stages[names].items()])
            for names, rows in self._rows.items()
        ]
