"""Numbers of the row in random pipelines: as parameters of ops, and read from their draws.

What takes such numbers follows from the declarations of the ops. A number is always within the
bounds: it goes from one end of the example's range to the other, in the steps of the label.
"""

import contextlib
import functools

import numpy as np
from random_steps import pick

from stoker.ops.bases.batch_op import BatchOp
from stoker.ops.bases.row_parameters import row_value
from stoker.ops.contract.examples import smallest_of
from stoker.ops.contract.parameters import rules_of
from stoker.ops.contract.states import State
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.planning.planner import bind
from stoker.pipeline.tracing.decided import numbers_of
from stoker.protocol.errors import StokerError

STEPS = 4
"""Numbers that a parameter takes."""


@functools.cache
def of_rows(op):
    """The parameters of an op that take numbers of the row: those that do not decide a size."""
    return [name for name in rules_of(op) if row_value(op, name) is not None and _takes(op, name)]


def _takes(op, name):
    image = State("image", "uint8", (None, None, 3), (64, 64, 3), shortest=48)
    states = {"image": image, "number": State.fixed("scalar", "int64", ())}
    draw = {"node": "draw", "op": op.name, "version": op.version, "stream": "one", "of": [0]}
    draw |= {"params": {**smallest_of(op), name: None}, "varies": [[name, None, 1]]}
    nodes = [{"node": "input", "field": field} for field in states]
    nodes += [draw, {"node": "apply", "draw": 2, "to": [0], "results": 1}]
    data = {"version": 1, "nodes": nodes, "outputs": [["image", 3]], "unlinked": ["image"]}
    data["forms"] = [{"output": "image", "form": "list"}]
    try:
        bind(Graph.from_data(data), states)
    except StokerError:
        return False
    return True


class RowValues:
    """Writes numbers of the row, with a generator of its own: what else is drawn stays the same.

    Two seeds of five have them, unless `some` says it.
    """

    def __init__(self, writer, seed, some):
        self.writer = writer
        self.rng = np.random.default_rng([seed, 3])
        by_seed = self.rng.uniform() < 0.4
        self.some = by_seed if some is None else some
        self.draws = []  # (number of the draw, name) of what may be read here

    def parameters(self, nodes, op, params):
        """The parameters of a draw, some of them null, and `varies`, which gives these."""
        taking = [name for name in of_rows(op) if self.rng.uniform() < 0.3] if self.some else []
        varies = [[name, None, self._number(nodes, op, name, params)] for name in taking]
        params = params | dict.fromkeys(taking)
        return params, ({"varies": varies} if varies else {})

    def _number(self, nodes, op, name, params):
        """A number of the row that the parameter takes."""
        rule = row_value(op, name)
        given = params.get(name, getattr(op, name, None))
        ends = given if isinstance(given, list | tuple) else (0, given)
        low, high = (min(max(end, rule.low), rule.high) for end in ends)
        kind = int if rule.whole else float
        step = kind((high - low) // (STEPS - 1) if rule.whole else (high - low) / STEPS)
        number = self.drawn(nodes) if not rule.whole else None
        if number is None:
            number = self._of(nodes, "mod", 2, STEPS)
        else:
            number = self._of(nodes, "ge", number, 0.5)
        return self._of(nodes, "add", self._of(nodes, "mul", number, step), kind(low))

    def _of(self, nodes, op, number, constant):
        return self.writer.expression(nodes, op, number, self.writer.constant(nodes, constant))

    def note(self, draw, op):
        """Note a draw, whose single numbers may be read in its block and in those inside."""
        if self.some and not issubclass(op, BatchOp):
            self.draws += [(draw, name) for name in numbers_of(op)]

    @contextlib.contextmanager
    def inside(self):
        """A block: what is drawn in it cannot be read after it."""
        before = len(self.draws)
        yield
        del self.draws[before:]

    def drawn(self, nodes):
        """A number that an op drew, in one call of three; else None."""
        if not self.draws or self.rng.uniform() > 1 / 3:
            return None
        draw, name = pick(self.rng, self.draws)
        return self.writer.expression(nodes, "record", draw, name=name)
