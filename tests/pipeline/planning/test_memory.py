"""Memory: offsets of values, no bytes shared by live values, and no pixels allocated a sample."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from itertools import pairwise

import numpy as np

from stoker.pipeline import one_of, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.planning.planner import bind
from stoker.pipeline.planning.steps import ApplyStep, ConvertStep, IfStep, StoreStep
from stoker.protocol.slot_layout import ALIGN


def places(plan, kind):
    return {value: p.index for value, p in plan.places.items() if p.kind == kind}


def test_final_op_writes_the_row_and_in_place_ops_need_no_memory(toys, varied, photo, rows, both):
    @pipeline
    def train(sample):
        image = toys.crop(sample.image, side=64)
        for turn in range(3):
            image = toys.shift(image, stream=f"s{turn}")
        return {"image": image, "label": sample.label}

    plan = bind(train.graph(), varied)
    applies = [s.dst for s in plan.steps if isinstance(s, ApplyStep)]
    assert places(plan, "output") == dict.fromkeys(applies, 0)
    assert plan.arena_bytes == 0
    assert [s.output for s in plan.steps if isinstance(s, StoreStep)] == [1]
    both(plan, rows, [photo[0], np.int64(1)])


def test_dead_buffers_are_used_again(toys, varied, photo, rows, both):
    @pipeline
    def train(sample):
        image = toys.crop(sample.image, side=64)
        for turn in range(6):
            image = toys.flip(image, stream=f"s{turn}")
        return {"image": image}

    plan = bind(train.graph(), varied)
    assert plan.arena_bytes == 2 * 64 * 64 * 3
    assert sorted(set(places(plan, "arena").values())) == [0, 64 * 64 * 3]
    both(plan, rows, [photo[0]])


def test_alternatives_share_memory(toys, varied, photo, rows, both):
    """Of many branches one runs, so what they hand out needs the bytes of one value.

    Here two values are there at once: what goes into an op, and what comes out.
    """

    @pipeline
    def train(sample):
        image = toys.crop(sample.image, side=64)
        image = one_of(
            image, choices=[toys.Flip(1.0), toys.Shift(), [toys.Flip(0.5), toys.Shift()]]
        )
        image = one_of(image, choices=[toys.Flip(0.7), toys.Shift(9.0)], stream="again")
        return {"image": toys.flip(image, stream="last")}

    plan = bind(train.graph(), varied)
    assert plan.arena_bytes == 2 * 64 * 64 * 3
    both(plan, rows, [photo[0]])


def test_a_value_that_is_still_read_is_not_overwritten(toys, varied, photo, rows, both):
    @pipeline
    def train(sample):
        first = toys.crop(sample.image, side=33)
        second = toys.shift(first)
        third = toys.flip(first)
        return {"a": second, "b": third, "c": first, "d": second}

    plan = bind(train.graph(), varied)
    for a, b, c, d in both(plan, rows, [photo[0]]):
        assert np.array_equal(a, d)
        assert np.array_equal(np.unique((a - c).ravel()).size, 1)
        assert np.array_equal(b, c) or np.array_equal(b, c[:, ::-1])


def test_in_place_never_writes_an_input_or_through_a_branch(toys, varied, photo, rows, both):
    """A join may be the input itself: an op that may run in place must not."""

    @pipeline
    def train(sample):
        image = toys.crop(sample.image, side=20)
        kept = image
        if sample.is_night:
            image = toys.shift(image, stream="inside")
        image = toys.shift(image)
        whole = toys.shift(sample.image, stream="whole") if sample.is_night else sample.image
        whole = toys.crop(toys.shift(whole, stream="again"), side=20, stream="c")
        return {"image": image, "kept": kept, "whole": whole}

    plan = bind(train.graph(), varied)
    image = photo[0].copy()
    for night in (True, False):
        fields = {"image": image, "is_night": np.bool_(night)}
        both(plan, rows, [fields[name] for name in plan.fields])
        assert np.array_equal(image, photo[0])


def courses(steps):
    """Yield every list of steps that may run: one block of each `if`, then (join, what it is)."""
    if not steps:
        yield []
        return
    first, *rest = steps
    for later in courses(rest):
        if not isinstance(first, IfStep):
            yield [first, *later]
            continue
        for side, block in (("then", first.then), ("orelse", first.orelse)):
            joins = [(join.dst, getattr(join, side)) for join in first.joins]
            for inner in courses(block):
                yield [*inner, *joins, *later]


def moments_of(course):
    """Return the values, and the scratch, that are there during each step that writes."""
    same = {}
    for step in course:
        if isinstance(step, tuple):
            same[step[0]] = same.get(step[1], step[1])
    live, moments = set(), []
    for step in reversed(course):
        if isinstance(step, ApplyStep | ConvertStep):
            src = same.get(step.src, step.src)
            moments.append(live | {step.dst, src, ("scratch", step.dst)})
            live = (live - {step.dst}) | {src}
        elif isinstance(step, StoreStep):
            live = live | {same.get(step.src, step.src)}
    return moments


def overlaps(moment, spans):
    """Return how many pairs of places are there at once; fail if two share bytes."""
    alive = sorted(spans[value] for value in moment if value in spans)
    for one, other in pairwise(alive):
        assert one[1] <= other[0], (one, other)
    return max(len(alive) - 1, 0)


def test_regions_that_live_at_once_do_not_overlap(toys, varied):
    """Recomputed from the steps alone, for a pipeline with scratch, branches and conversions."""

    @pipeline
    def train(sample):
        image, mask = toys.crop(sample.image, sample.mask, side=50)
        for turn in range(4):
            if sample.label > turn:
                image = toys.flip(image, stream=f"f{turn}")
        image = toys.scale(image) if sample.is_night else image
        return {"image": image, "mask": mask}

    plan = bind(train.graph(), varied)
    spans = {
        value: (offset, offset + plan.states[value].bound_bytes)
        for value, offset in places(plan, "arena").items()
    }
    spans |= {("scratch", v): (offset, offset + 100) for v, offset in plan.scratch.items()}
    assert all(start % ALIGN == 0 and end <= plan.arena_bytes for start, end in spans.values())
    every = list(courses(plan.steps))
    assert len(every) == 2**5
    assert sum(overlaps(moment, spans) for course in every for moment in moments_of(course)) > 100


def test_guard_bytes_round_outputs_stay(toys, varied, photo, rows):
    @pipeline
    def train(sample):
        image, mask = toys.crop(sample.image, sample.mask, side=31)
        return {"image": toys.flip(image), "mask": mask, "label": sample.label}

    plan = bind(train.graph(), varied)
    engine = compile_plan(plan)
    outputs, blocks = [], []
    for output in plan.outputs:
        block = np.full(output.row_bytes + 128, 0xA5, np.uint8)
        inner = block[64 : 64 + output.row_bytes].view(output.dtype).reshape(output.shape)
        outputs.append(inner)
        blocks.append((block, output.row_bytes))
    fields = {"image": photo[0], "mask": photo[1], "label": np.int64(3)}
    for row in rows:
        engine.run(row, [fields[name] for name in plan.fields], outputs)
        for block, size in blocks:
            assert (block[:64] == 0xA5).all()
            assert (block[64 + size :] == 0xA5).all()


def test_no_pixel_memory_is_allocated_per_sample(kernel_cache, tmp_path):
    """Counted by numba's own allocator and by tracemalloc, in a process of its own."""
    program = textwrap.dedent("""
        import sys, tracemalloc
        import numpy as np
        from numba.core.runtime import rtsys
        from stoker import ops
        from stoker.pipeline import Row, pipeline
        from stoker.pipeline.compiled.executor import compile_plan
        from stoker.jit import set_cache_root

        set_cache_root(sys.argv[1])

        @pipeline
        def train(sample):
            image, mask = ops.random_crop(sample.image, sample.mask, size=200)
            if sample.label > 1:
                image, mask = ops.horizontal_flip(image, mask)
            image = ops.normalize(image, mean=(0.5,) * 3, std=(0.5,) * 3)
            return {"image": image, "mask": mask, "label": sample.label}

        fields = {
            "image": np.zeros((300, 310, 3), np.uint8),
            "mask": np.zeros((300, 310), np.uint8),
            "label": np.int64(0),
        }
        plan = train.plan_for(fields)
        engine = compile_plan(plan)
        outputs = [np.zeros(o.shape, o.dtype) for o in plan.outputs]

        def run(count):
            for k in range(count):
                fields["label"] = np.int64(k % 4)
                engine.run(Row(1, k, 0), [fields[name] for name in plan.fields], outputs)

        run(10)
        before = rtsys.get_allocation_stats()
        tracemalloc.start()
        run(200)
        _, peak = tracemalloc.get_traced_memory()
        after = rtsys.get_allocation_stats()
        # numba makes one small header for each array argument: the tables.
        headers = 200 * 12
        print(after.alloc - before.alloc - headers, peak)
    """)
    script = tmp_path / "count.py"
    script.write_text(program)
    env = {**os.environ, "NUMBA_NRT_STATS": "1"}
    command = [sys.executable, str(script), str(kernel_cache)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    allocations, peak = (int(word) for word in result.stdout.split())
    assert allocations == 0
    assert peak < 20_000
