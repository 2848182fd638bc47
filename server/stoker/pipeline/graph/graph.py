"""The graph v1: a pipeline as plain data, versioned and bounded.

A graph is a list of nodes in the order in which they run, and the outputs: (name, value number).
Each node defines as many values as `Node.width` says; values are numbered 0, 1, 2, ... in the
order of the nodes, those inside the blocks of an `if` before the results of that `if`. A node may
use only values that are defined before it, in its own block or an enclosing one. Single assignment:
nothing is ever written twice.

Decisions are explicit: a `draw` node is one random decision of one op, and every `apply` node names
the decision that it follows. A joint op, an op instance used twice and a shared stream name are
therefore the same thing: several applies of one draw.

The pipeline id (`stoker.pipeline.graph.normal.pipeline_id`) is the digest of the normal form.
Source lines (`sites`) and calls that no output needs (`unneeded`) are stored with it but are not
part of the identity. Reading refuses graphs that are too large, too deep, of another version, or
not well-formed. Specified with test vectors in docs/contracts/graph.md. Plain data, no code: safe
to receive.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from stoker.pipeline.graph.frame_sampling import FrameSampling
from stoker.pipeline.graph.nodes import (
    MAX_NODES,
    MAX_OUTPUTS,
    MAX_TRACED,
    Form,
    Name,
    Node,
    Number,
    Path,
    Unneeded,
)
from stoker.pipeline.graph.sites import NOWHERE, Site
from stoker.pipeline.graph.wellformed import check, check_depth
from stoker.protocol import version
from stoker.protocol.analysis import analyzed
from stoker.protocol.canonical import canonical_digest
from stoker.protocol.errors import BuildError, VersionError


class Graph(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A pipeline as data.

    Attributes:
        version: of the graph format.
        nodes: the nodes, in execution order.
        outputs: (name, value number) in the order in which a batch holds them.
        forms: how outputs make a batch, in the order of the outputs, without the outputs that are
            stacked, which most are.
        sites: (value number, file, line): where the user wrote it; outside the identity.
        unneeded: calls that no output needs; checked but never run; outside the identity.
        unlinked: outputs that need not follow the image; outside the identity.
        clip: which frames of a clip a row has; None: rows are samples.
    """

    version: int = version.GRAPH
    nodes: Annotated[tuple[Node, ...], msgspec.Meta(max_length=MAX_NODES)]
    outputs: Annotated[tuple[tuple[Name, Number], ...], msgspec.Meta(max_length=MAX_OUTPUTS)]
    forms: Annotated[tuple[Form, ...], msgspec.Meta(max_length=MAX_OUTPUTS)] = ()
    sites: Annotated[
        tuple[tuple[Number, Path, Number], ...],
        msgspec.Meta(max_length=MAX_NODES * 2),
    ] = ()
    unneeded: Annotated[tuple[Unneeded, ...], msgspec.Meta(max_length=MAX_TRACED)] = ()
    unlinked: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_OUTPUTS)] = ()
    clip: FrameSampling | None = None

    def to_data(self, *, sites: bool = True) -> dict[str, Any]:
        """Return the graph as plain data: dict, list, text, numbers.

        Args:
            sites: whether to include what is outside the identity: sites, unneeded calls, and
                unlinked outputs.
        """
        data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        if not self.forms:
            data.pop("forms")
        if self.clip is None:
            data.pop("clip")
        if not sites or not self.sites:
            data.pop("sites")
        if not sites or not self.unneeded:
            data.pop("unneeded")
        if not sites or not self.unlinked:
            data.pop("unlinked")
        return data

    @staticmethod
    def from_data(data: object) -> Graph:
        """Read plain data.

        Raises:
            VersionError: the graph is of another version of the format.
            BuildError: it is malformed, too large or too deep; the message says where.
        """
        found = data.get("version") if isinstance(data, dict) else None
        if isinstance(found, int) and found != version.GRAPH:
            raise VersionError(
                f"graph: expected version {version.GRAPH}, got {found}; use the same version of "
                "Stoker on both sides"
            )
        check_depth(data)
        try:
            graph = msgspec.convert(data, analyzed(Graph))
        except (msgspec.ValidationError, RecursionError) as error:
            raise BuildError(f"graph: {error}") from None
        check(graph)
        return graph

    @property
    def digest(self) -> str:
        """BLAKE2b-128 of the graph as written and the contract versions, 32 hex digits."""
        contracts = {
            "random": version.RANDOM,
            "numeric": version.NUMERIC,
            "decoder": version.DECODER,
        }
        return canonical_digest({"contracts": contracts, "graph": self.to_data(sites=False)})

    def site(self, value: int) -> Site:
        """Return where the user wrote the node that defines a value."""
        for number, file, line in self.sites:
            if number == value:
                return Site(file, line)
        return NOWHERE
