"""Instructions that the machine code of pixel loops must or must not contain, from the LLVM IR.

In a fresh process, from the optimized modules that the kernel cache keeps: so what other tests have
compiled is not compiled again.
"""

import json
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from kept_code import Kept, is_unfused
from llvmlite.binding import get_host_cpu_features
from machine_code import violations

# With a cold cache, every kernel is compiled: minutes on a busy machine.
pytestmark = pytest.mark.timeout(1200)

SCRIPT = """
import json, sys
sys.path[:0] = sys.argv[4:]
import numpy as np
from kept_code import Kept, loop_faults, optimized, remember_objects
from stoker import ops
from stoker.ops import State, StateError, make
from stoker.ops.contract.kernel_forms import no_draw, same_size
from stoker.ops.contract.states import storage
from stoker.ops.contract.machine_records import machine_record
from stoker.ops.contract.registry import choices as ops_of_choice, registered
from stoker.pipeline import pipeline
from stoker.pipeline.compiled.kernel_calls import draw_of
from stoker.pipeline.compiled.loop import compile_loop
from stoker.pipeline.compiled.machine import address_of
from stoker.pipeline.compiled.program import write_program
from stoker.pipeline.compiled.signature import call_types
from stoker.pipeline.compiled.warm_kernels import batch_calls, op_calls
from stoker.jit import compiled, compiling, set_cache_root
from machine_code import violations
from stoker.rng.streams import machine_key, make_key
import importlib

set_cache_root(sys.argv[1])
remember_objects()

def record_of(dtype, value=None):
    array = np.zeros(1, machine_record(dtype))
    if value is not None:
        array[0] = value[()]
    return array[0]

def all_of(fn):
    # The code of a function, and what its callers make of it, for all types that the cache has.
    for forms in (compiling._done, compiling._callee_forms):
        form = compiling._made(fn, (), forms)
        for types in form._cache.signatures(form):
            form.compile(types)
            yield optimized(form.overloads[types], fn)

def once(fn, *given):
    # What reads no parameter has one code for all ops.
    if fn not in (no_draw, same_size) or not compiled(fn).overloads:
        compiled(fn)(*given)

compiled_in = {}
# From the end: tests of ops that run at the same time begin at the start.
for name, choices in reversed(json.loads(sys.argv[2]).items()):
    for given in choices:
        op = make(name, given)
        for kind, dtype in [(kind, "uint8") for kind in op.kernels] + [("image", "float32")]:
            channels = (len(fill),) if isinstance(fill := given.get("fill"), list) else (3,)
            shape = (40, 50) + (channels if kind in ("image", "array") else ())
            try:
                (after,), need = op.declare((State.fixed(kind, dtype, shape),))
            except StateError:
                continue
            record, params = record_of(op.record), record_of(op.parameters, op.params())
            key = machine_key(make_key(1, 2, 3, 4))
            items = (np.zeros((0, 4), np.uint32),) if op.draws_from else ()
            once(op.draw, key, params, 40, 50, record, *items)
            once(op.out_size, params, record, 40, 50)
            dst = np.zeros(after.bound, storage(after.dtype))
            src = np.zeros(shape, dtype)
            run = compiled(op.kernel_of(kind, dtype).run)
            run(src, dst, params, record, np.zeros(need + 64, np.uint8))
            compiled_in[name + " " + kind + " " + dtype] = run
        compiled_in[name + " draw"] = compiled(op.draw)
        compiled_in[name + " size"] = compiled(op.out_size)

image, mask = np.zeros((40, 50, 3), np.uint8), np.zeros((40, 50), np.uint8)

@pipeline
def branches(sample):
    image, mask = ops.random_resized_crop(sample.image, sample.mask, size=24)
    if sample.label % 3 == 1 and sample.weight / 2 > 0.25 or not sample.label // 2:
        image, mask = ops.rotate(image, mask, degrees=30)
        image = ops.gaussian_noise(image)
    image = ops.normalize(image, dtype="float16", layout="CHW")
    return {"image": image, "mask": mask, "n": sample.label * 2.5 - sample.weight}

@pipeline
def sizes(sample):
    image, mask = ops.random_short_side_scale(
        sample.image, sample.mask, sizes=(20, 40), max_size=60
    )
    if image.height > 25:
        image = ops.color_jitter(image, brightness=0.2, hue=0.1)
    image, mask = ops.letterbox(image, mask, size=32)
    return {"image": image, "mask": mask, "label": sample.label}

for train in (branches, sizes):
    fields = {"image": image, "mask": mask, "label": np.int64(1), "weight": np.float32(1)}
    for call in write_program(train.plan_for(fields)).calls.values():
        address_of(call)
        compiled_in[f"{call} in {train.name}"] = compiled(call.function)

compiled_in["loop"] = compile_loop()

# The functions that are compiled ahead, except those of ops, which are here already.
here = {op.draw for op in registered().values()} | {op.out_size for op in registered().values()}
for op in registered().values():
    here |= {kernel.run for kernel in (*op.kernels.values(), *op.floats.values())}
ahead = [*batch_calls(), *(call for call in op_calls() if call[0] not in here)]
drawn = [call for op in ops_of_choice().values() if (call := draw_of(op)) is not None]
ahead += [(call.function, call_types(call)) for call in drawn]
for number, (fn, types) in enumerate(dict.fromkeys(ahead)):
    fast = compiled(fn)
    fast.compile(types)
    compiled_in[f"{fn.__module__}.{fn.__name__} #{number}"] = fast

# Most ops share functions with others: each is read once.
kept = {id(fast): Kept(fast) for fast in compiled_in.values()}
broken = {key: violations(code) for key, code in kept.items()}
faults = {name: broken[id(fast)] for name, fast in compiled_in.items()}
multiply = [name for name, fast in compiled_in.items() if kept[id(fast)].multiplies]

found = {}
for module, names in json.loads(sys.argv[3]).items():
    loaded = importlib.import_module("stoker.ops." + module)
    for fn in names:
        found[module + "." + fn] = [loop_faults(text) for text in all_of(getattr(loaded, fn))]
print(json.dumps([found, faults, multiply]))
"""

AHEAD = {
    *(
        f"ops.mixes.{op}._draw"
        for op in ("copy_paste", "cutmix", "mixup", "mosaic", "mosaic_scaled")
    ),
    *(
        f"ops.values.choice_ops._draw_{what}"
        for what in ("chance", "uniform", "integer", "one", "some")
    ),
    *(
        "ops.kernels.means.blend_bytes",
        "ops.kernels.means.blend_floats",
        "ops.kernels.means.blend_halves",
    ),
    *(
        "ops.kernels.paste.paste",
        "ops.kernels.points.move_boxes",
        "ops.kernels.points.move_keypoints",
    ),
    *(f"pipeline.compiled.adapters.move_by_move_{kind}" for kind in ("boxes", "keypoints")),
    "pipeline.compiled.adapters.map_by__forward",
}
"""Some of what is compiled ahead: batch ops, choices, boxes and keypoints."""
LOOPS = {
    "kernels.tap_sums": ["blend_rows", "blend_group"],
    "kernels.color": ["write_luma", "blend_with", "gray_sum", "saturate", "rotate_hue"],
    "color.grayscale": ["write_gray", "write_gray_floats", "write_gray_floats_into"],
    "color.to_gray": ["write_luma_of_words", "write_gray", "split_colors"],
    "kernels.reorder": ["mirror1", "mirror3", "turn_tile"],
    "kernels.cut": ["fill_values", "fill_colors"],
    "color.channel_shuffle": ["permute3"],
    "kernels.warp": ["mix_run"],
    "kernels.half": ["narrow_run"],
    "kernels.means": ["blend_bytes", "blend_halves"],
    "values.normalize": ["line_hwc", "line_chw"],
    "color.invert": ["invert_levels", "invert_into", "invert_floats", "invert_floats_into"],
    "color.solarize": ["invert_from", "invert_floats_from"],
    "color.posterize": ["mask_levels", "mask_into"],
    "filters.sharpness": ["sharpen_row", "sharpen_floats"],
    "filters.box_blur": ["add_line", "swap_line", "store_means", "store_threes"],
    "kernels.jpeg_blocks": ["forward_pass", "inverse_pass", "quantize"],
    "filters.median_blur": [
        "sort_columns",
        "store_middles",
        "count_from",
        "count_five",
        "keep_bit",
    ],
    "kernels.median_five": ["sort_fives", "store_fives"],
    "color.rgb_to_hsv": ["to_hsv"],
    "color.ycbcr_to_rgb": ["to_rgb"],
    "color.rgb_to_ycbcr": ["to_ycbcr"],
    "kernels.color_floats": ["blend_run", "write_grays", "saturate_run", "rotate_run"],
    "kernels.hsv_floats": ["floats_to_hsv", "hsv_to_floats"],
    "kernels.ycbcr_floats": ["floats_to_ycbcr", "ycbcr_to_floats"],
    "color.autocontrast": ["widen", "stretch_line"],
    "kernels.float_levels": ["settle"],
    "kernels.float_sums": ["begin_run", "add_run", "blend_group"],
    "kernels.powers": ["raise_all"],
    "kernels.median_floats": [
        "are_keys",
        "write_keys",
        "read_keys",
        "count_seven",
        "count_two",
        "keep_trial",
    ],
    "kernels.windows_floats": ["weigh"],
    "kernels.windows": ["begin_sums", "add_pair", "store_row", "store_levels"],
}
SUMS_IN_FLOAT64 = {"kernels.warp.mix_run"}
BLENDS = [f"kernels.tap_sums.{name}" for name in LOOPS["kernels.tap_sums"]]
BLENDS += [f"kernels.color.{name}" for name in ("blend_with", "saturate", "rotate_hue")]


@pytest.fixture(scope="module")
def machine(examples, tmp_path_factory, kernel_cache):
    """Faults of loops by function, others by kernel or rule, and which of these multiply floats."""
    chosen = {name: choices[:2] for name, choices in examples.items()}
    folder = tmp_path_factory.mktemp("ir")
    (folder / "compile_all.py").write_text(SCRIPT)
    arguments = [
        str(kernel_cache),
        json.dumps(chosen),
        json.dumps(LOOPS),
        str(Path(__file__).parent),
        str(Path(__file__).parents[1] / "support"),
    ]
    done = subprocess.run(
        [sys.executable, str(folder / "compile_all.py"), *arguments],
        check=True,
        timeout=1100,
        stdout=subprocess.PIPE,
        text=True,
    )
    found, faults, multiply = json.loads(done.stdout)
    assert all(found.values()), [name for name, ir in found.items() if not ir]
    return found, faults, multiply


@pytest.fixture(scope="module")
def loops(machine):
    return machine[0]


@pytest.mark.slow
def test_pixel_loops_are_vectors(loops):
    for name, forms in loops.items():
        assert not all("scalar" in faults for faults in forms), name


@pytest.mark.slow
def test_integer_loops_stay_in_int32(loops):
    for name in BLENDS:
        assert not [faults for faults in loops[name] if "wide" in faults], name
        assert not [faults for faults in loops[name] if "no int32" in faults], name


@pytest.mark.slow
def test_pixel_loops_have_no_float64(loops):
    """But for bilinear means of images of floats, which are summed in float64."""
    for name, forms in loops.items():
        for faults in forms:
            if name not in SUMS_IN_FLOAT64 or "of floats" not in faults:
                assert "float64" not in faults, f"{name}: {faults}"


@pytest.mark.as_a_user
@pytest.mark.slow
def test_nothing_calls_libm_allocates_or_fuses(machine, examples):
    """Kernels, draws and sizes of ops; what batch ops, boxes, keypoints and choices run; the loop.

    Assembly is read of what multiplies floats.
    """
    _, faults, multiply = machine
    for name in examples:
        assert {f"{name} draw", f"{name} size"} < faults.keys()
    assert {"loop", "out_size of random_short_side_scale in sizes"} < faults.keys()
    functions = {name.partition(" #")[0].removeprefix("stoker.") for name in faults}
    assert not AHEAD - functions
    assert {"normalize image uint8", "rotate draw", "loop"} <= set(multiply)
    assert {name: found for name, found in faults.items() if found} == {}


def multiply_add(a, b, c):
    return a * b + c


def multiply_add_all(a, b, c):
    for i in range(len(c)):
        c[i] = a[i] * b[i] - c[i]


NUMBERS = [np.float64(2)] * 3, [np.float32(2)] * 3
ARRAYS = [np.ones(40)] * 3, [np.ones(40, np.float32)] * 3


@pytest.mark.parametrize(
    ("function", "given"),
    [*((multiply_add, given) for given in NUMBERS), *((multiply_add_all, x) for x in ARRAYS)],
)
def test_a_fused_operation_is_seen(function, given):
    fused = numba.njit(fastmath=True)(function)
    fused(*given)
    found = violations(Kept(fused))
    assert "lets fmul be reordered or rounded differently: fast" in found
    if get_host_cpu_features().get("fma"):
        assert any(fault.startswith("fuses a multiplication and an addition: ") for fault in found)


def test_assembly_is_made_only_of_code_that_may_fuse():
    plain = numba.njit(multiply_add)
    plain(1.0, 2.0, 3.0)
    assert Kept(plain).multiplies
    assert Kept(plain).inspect_asm() == {}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("62f17c4858c4 62b1ad006cfd", True),  # vaddps zmm, vpunpcklqdq: "c462b1ad" is in both
        ("c4624952fb c3", True),  # vpdpwssd, which capstone does not know
        ("c4624952fb c462b1adfd", False),  # and vfnmadd213sd
        ("c4e269a6c1", False),  # vfmaddsub213ps
        ("62f66d48a8c1", False),  # vfmadd213ph
        ("c4e2ff52c1 c3", False),  # no instruction
    ],
)
def test_what_fuses_is_seen_in_the_bytes(code, expected):
    assert is_unfused(bytes.fromhex(code)) is expected
