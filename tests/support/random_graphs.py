"""Random pipelines of every op there is, as graph data written by a seeded generator.

A pipeline has branches, shared streams and folds, and ends in one of four ways: as it is; in batch
ops, some of them in branches; in outputs of varying shape; in folds. In two pipelines of five
images become floats and levels again on their way, and join as what they are. In two of five,
parameters are numbers of the row, and conditions read what was drawn (`random_row_values`). Tests
of the engines and storms of kills use them. Rows are images and masks of at least 48 x 48 pixels, a
label and a weight.
"""

import numpy as np
from random_row_values import RowValues
from random_steps import (
    ARRAYS,
    BEFORE,
    CHANGES_OF_LEVELS,
    CONVERSIONS,
    MADE,
    MIXED,
    PARAMS,
    pick,
    takes_floats,
)

from stoker.ops.contract.registry import lookup, make
from stoker.ops.contract.rules import FLOAT


class Writer:
    """Writes graph data: `flow` keeps the numbers of the image and the mask as they change.

    With `painted`, only ops that move image and mask alike are called, with one fill for both.
    `sharp` ops take the nearest pixel of an image too. `more` are further ops, as `PARAMS`.
    `stored` is the dtype of images in the dataset; `floats` says whether images of floats occur,
    which the seed decides where it is None; `of_rows` says the same of numbers of the row.
    """

    def __init__(
        self,
        seed,
        painted=False,
        sharp=False,
        more=None,
        stored="uint8",
        floats=None,
        of_rows=None,
    ):
        self.seed = seed
        # A generator of its own: pipelines without floats are what they were before there were any.
        by_seed = stored == FLOAT or np.random.default_rng([seed, 2]).uniform() < 0.4
        self.floats = by_seed if floats is None else floats
        self.dtypes = {0: stored}
        self.wide = set()  # images of floats that may have levels of 0 to 255, not of 0 to 1
        self.rng = np.random.default_rng(seed)
        self.row_values = RowValues(self, seed, of_rows)
        self.next = 4
        self.streams = []
        self.painted = painted
        self.sharp = sharp
        self.params = PARAMS | (more or {})
        self.names = [n for n in sorted(self.params) if not painted or self.moves(n)]

    def moves(self, name):
        return lookup(name).kernels.keys() >= {"image", "mask"}

    def calls(self, count, flow, depth):
        nodes = []
        for _ in range(count):
            if depth < 2 and self.rng.uniform() < 0.3:
                flow = self.branch(nodes, flow, depth)
            elif self.floats and self.rng.uniform() < 0.25:
                flow = self.converted(nodes, flow)
            else:
                flow = self.call(nodes, pick(self.rng, self.known(flow[0], self.names)), flow)
        return nodes, flow

    def known(self, image, names):
        """Those of the ops that have a rule for the image."""
        if self.dtypes[image] != FLOAT:
            return names
        return [name for name in names if takes_floats(name, self.params[name])]

    def converted(self, nodes, flow):
        """The flow with floats in the place of the image's levels, or levels of its floats.

        Floats of 0 to 255 are brought into 0 to 1 first: nearly all would be the same white.
        """
        image, mask = flow
        op = lookup(CONVERSIONS[self.dtypes[image]])
        if image in self.wide:
            (image,) = self.apply(nodes, lookup("autocontrast"), {"p": 1.0}, [image])
        return self.apply(nodes, op, {}, [image])[0], mask

    def call(self, nodes, name, flow, params=None):
        if name in BEFORE:
            before, fixed = BEFORE[name]
            flow = self.call(nodes, before, flow, dict(fixed))
        op = lookup(name)
        params = self.params[name](self.rng) if params is None else params
        fields = op.__dataclass_fields__
        if self.painted and "mask_fill" in fields:
            red = 1 if self.dtypes[flow[0]] == FLOAT else 255
            params |= {"fill": [red, 0, 0], "mask_fill": 1}
        if self.sharp and "interpolation" in fields:
            params |= {"interpolation": "nearest"}
        make(name, params)  # a wrong example would otherwise look like a refusal
        both = self.moves(name)
        values = list(flow if both else flow[:1])
        if op.folds:
            values.append(self.call(nodes, "invert", flow)[0])
            return self.apply(nodes, op, params, values, fold=True)[0], flow[1]
        results = self.apply(nodes, op, params, values)
        return results[0], results[1] if both else flow[1]

    def apply(self, nodes, op, params, values, fold=False):
        """Draw for the first of the values and apply to all, or make one of them."""
        stream = self.stream() if op.random else None
        params, varies = self.row_values.parameters(nodes, op, params)
        nodes.append({"node": "draw", "op": op.name, "version": op.version, "params": params,
                      "stream": stream, "of": values[:1], **varies})  # fmt: skip
        decision = self.number()
        self.row_values.note(decision, op)
        results = []
        for to in [values] if fold else [[value] for value in values]:
            nodes.append({"node": "apply", "draw": decision, "to": to, "results": 1})
            results.append(self.number())
            self.dtypes[results[-1]] = MADE.get(op.name, self.dtypes.get(to[0]))
            if op.name not in MADE and not self.wide.isdisjoint(to):
                self.wide.add(results[-1])
        return results

    def stream(self):
        """A name of its own, or for one call in five that of another call."""
        if self.streams and self.rng.uniform() < 0.2:
            return pick(self.rng, self.streams)
        self.streams.append(f"stream {len(self.streams)}")
        return self.streams[-1]

    def branch(self, nodes, flow, depth):
        cond = self.condition(nodes, flow)
        blocks, ends = [], self.ends()
        for _ in range(2):
            with self.row_values.inside():
                inner, results = self.calls(int(self.rng.integers(0, 3)), flow, depth + 1)
                # Both end in one size, so that image and mask still agree after the join.
                results = self.call(inner, "resize", results, {"size": [16, 16]})
                if self.dtypes[results[0]] not in ends:
                    results = self.converted(inner, results)
            blocks.append({"nodes": inner, "results": list(results)})
        nodes.append({"node": "if", "cond": cond, "then": blocks[0], "else": blocks[1]})
        joined = self.number(), self.number()
        images = [block["results"][0] for block in blocks]
        dtypes = {self.dtypes[image] for image in images}
        self.dtypes[joined[0]] = FLOAT if FLOAT in dtypes else "uint8"
        if len(dtypes) == 2 or not self.wide.isdisjoint(images):
            self.wide.add(joined[0])
        return joined

    def ends(self):
        """Dtypes that branches may end in: floats join floats, or levels, which stay 0 to 255."""
        if not self.floats:
            return ("uint8",)
        if self.painted:  # 255 and 1 would be one color
            return (FLOAT,)
        return pick(self.rng, ((FLOAT,), (FLOAT,), ("uint8",), ("uint8", FLOAT)))

    def condition(self, nodes, flow):
        """One comparison, or two that are joined by and, or, not."""
        conds = [self.comparison(nodes, flow) for _ in range(int(self.rng.integers(1, 3)))]
        if self.rng.uniform() < 0.3:
            conds[0] = self.expression(nodes, "not", conds[0])
        return (
            conds[0]
            if len(conds) == 1
            else self.expression(nodes, pick(self.rng, ("and", "or")), *conds)
        )

    def comparison(self, nodes, flow, kinds=3):
        """The label, the weight, the height, a statistic of floats or a draw, and a constant."""
        drawn = self.row_values.drawn(nodes)
        if drawn is not None:
            return self.expression(nodes, "ge", drawn, self.constant(nodes, 0.5))
        if kinds == 3 and self.dtypes[flow[0]] == FLOAT and self.rng.uniform() < 0.4:
            statistic = pick(self.rng, ("mean", "max", "min"))
            limit = {"mean": 0.45, "max": 0.9, "min": 0.1}[statistic]
            left = self.expression(nodes, statistic, flow[0])
            return self.expression(
                nodes, pick(self.rng, ("lt", "ge")), left, self.constant(nodes, limit)
            )
        kind = self.rng.integers(kinds)
        left = (2, 3)[kind] if kind < 2 else self.expression(nodes, "height", flow[0])
        limits = [int(self.rng.integers(-2, 12)), float(self.rng.uniform(0, 0.6)), 24]
        limit = self.constant(nodes, limits[kind])
        return self.expression(nodes, pick(self.rng, ("lt", "ge", "ne")), left, limit)

    def constant(self, nodes, value):
        nodes.append({"node": "const", "value": value})
        return self.number()

    def expression(self, nodes, op, *args, name=""):
        nodes.append({"node": "expr", "op": op, "args": list(args), "name": name})
        return self.number()

    def number(self):
        self.next += 1
        return self.next - 1

    def graph(self):
        fields = [{"node": "input", "field": f} for f in ("image", "mask", "label", "weight")]
        # Every crop of at most 24 pixels fits: the flow starts with at least 24 x 24.
        nodes, flow = self.calls(int(self.rng.integers(1, 6)), (0, 1), 0)
        # A generator of its own: another end changes nothing before it.
        self.rng = np.random.default_rng([self.seed, 1])
        ends = (
            (self.mixed,) if self.painted else (self.mixed, self.mixed, self.varying, self.folded)
        )
        end = pick(self.rng, ends) if self.rng.uniform() < 0.5 else self.plain
        outputs, forms = end(nodes, flow)
        outputs |= {"label": 2, "weight": outputs.get("weight", 3)}
        graph = {"version": 1, "nodes": [*fields, *nodes], "outputs": [*map(list, outputs.items())]}
        graph["unlinked"] = sorted(outputs)  # augmix_transform moves images alone, for example
        return graph | ({"forms": forms} if forms else {})

    def plain(self, nodes, flow):
        """Image and mask of one size."""
        image, mask = self.call(nodes, "resize", flow, {"size": [24, 24]})
        made = {"image": image, "mask": mask}
        if self.floats and not self.painted:
            for name, example in ARRAYS.items():
                if self.rng.uniform() < 0.4:
                    made[name] = self.apply(nodes, lookup(name), example(self.rng), [image])[0]
        return made, []

    def varying(self, nodes, flow):
        """Image and mask as large as they are, in two forms."""
        forms = [
            {"output": name, "form": pick(self.rng, ("pad", "ragged", "list"))}
            for name in ("image", "mask")
        ]
        return {"image": flow[0], "mask": flow[1]}, forms

    def folded(self, nodes, flow):
        """Image and mask, and what some ops make of the image side by side in one array."""
        made, forms = self.plain(nodes, flow)
        images = [made["image"]]
        for _ in range(int(self.rng.integers(1, 4))):
            name = pick(self.rng, self.known(images[0], CHANGES_OF_LEVELS))
            images.append(self.call(nodes, name, (pick(self.rng, images), made["mask"]))[0])
        made["images"] = self.apply(nodes, lookup("stack"), {}, images, fold=True)[0]
        return made, forms

    def mixed(self, nodes, flow):
        """One to three batch ops on image and mask, some of them for some rows alone."""
        made, forms = self.plain(nodes, flow)
        values = {**made, "weight": 3}
        if not self.painted:
            float_image = {"mean": [0.5], "std": [0.2], "dtype": "float16", "layout": "CHW"}
            values["floats"] = self.apply(nodes, lookup("normalize"), float_image, [made["image"]])[
                0
            ]
            if self.rng.uniform() < 0.3:
                values["whole"], forms = flow[0], [{"output": "whole", "form": "list"}]
        names = [pick(self.rng, ("mosaic", "cutmix", "mixup"))]
        names += [pick(self.rng, ("cutmix", "mixup")) for _ in range(self.rng.integers(3))]
        for name in names:
            if not (self.painted and name == "mixup"):
                self.mix(nodes, name, values)
        return values, forms

    def mix(self, nodes, name, values):
        """Call a batch op with the values that it takes; put what it makes in their place."""
        op, params = lookup(name), {"p": pick(self.rng, (1.0, 0.6))}
        if name != "mosaic":
            params["alpha"] = 1.0
        taken = [n for n in MIXED[name] if n in values]
        given = [values[n] for n in taken]
        if self.rng.uniform() < 0.6:
            results = self.apply(nodes, op, params, given)
        else:
            cond, inner = self.comparison(nodes, given, 2), []
            made = self.apply(inner, op, params, given)
            blocks = [{"nodes": inner, "results": made}, {"nodes": [], "results": given}]
            if self.rng.uniform() < 0.5:
                blocks.reverse()
            nodes.append({"node": "if", "cond": cond, "then": blocks[0], "else": blocks[1]})
            results = [self.number() for _ in given]
            self.dtypes |= {
                new: self.dtypes.get(old) for new, old in zip(results, given, strict=True)
            }
        values |= dict(zip(taken, results, strict=True))
