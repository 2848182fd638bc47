"""What the machine code of pixel loops must and must not contain, read from the LLVM IR.

Fresh caches, in a fresh process: numba shows no IR for code that it loaded from disk.
"""

import json
import re
import subprocess
import sys

import pytest

# The code is compiled anew to be read: minutes on a busy machine.
pytestmark = pytest.mark.timeout(420)

SCRIPT = """
import json, sys
import numpy as np
from stoker.ops import State, make
from stoker.ops.contract import storage
from stoker.rng.jit import compiled, set_cache_root
from stoker.rng.streams import machine_key, make_key
import importlib

set_cache_root(sys.argv[1])

def record_of(dtype, value=None):
    array = np.zeros(1, dtype)
    if value is not None:
        array[0] = value[()]
    return array[0]

for name, choices in json.loads(sys.argv[2]).items():
    for given in choices:
        op = make(name, given)
        for kind in op.kernels:
            shape = (40, 50, 3) if kind in ("image", "array") else (40, 50)
            (after,), need = op.declare((State.fixed(kind, "uint8", shape),))
            record, params = record_of(op.record), record_of(op.parameters, op.params())
            key = machine_key(make_key(1, 2, 3, 4))
            compiled(op.draw)(key, params, 40, 50, record)
            dst = np.zeros(after.bound, storage(after.dtype))
            src = np.zeros(shape, np.uint8)
            compiled(op.kernels[kind].run)(src, dst, params, record, np.zeros(need + 64, np.uint8))

found = {}
for module, names in json.loads(sys.argv[3]).items():
    loaded = importlib.import_module("stoker.ops." + module)
    for fn in names:
        found[module + "." + fn] = list(compiled(getattr(loaded, fn)).inspect_llvm().values())
print(json.dumps(found))
"""

LOOPS = {
    "blend": ["lanes2", "lanes3", "lanes4", "lanes_many", "rows2", "rows3", "rows4"],
    "tiles": ["turn16", "back4of16"],
    "color": ["blend_with", "grey_sum", "saturate", "rotate_hue"],
    "reorder": ["copy_run", "mirror1", "mirror3", "turn_tile"],
    "cut": ["fill_values", "fill_colours"],
    "channel_shuffle": ["permute3"],
    "warp": ["mix_run"],
    "half": ["to_half"],
    "normalize": ["line_hwc", "line_chw"],
    "invert": ["invert_levels", "invert_into"],
    "solarize": ["invert_from"],
    "posterize": ["mask_levels"],
    "sharpness": ["sharpen_row"],
    "box_blur": ["add_line", "swap_line", "store_means"],
    "median_blur": ["sort_columns", "store_middles", "count_from", "keep_bit"],
    "ycbcr_to_rgb": ["to_rgb"],
    "rgb_to_ycbcr": ["to_ycbcr"],
    "windows": ["begin_sums", "add_pair", "store_row", "store_levels"],
}
BLENDS = [f"blend.{name}" for name in LOOPS["blend"]]
BLENDS += ["color.blend_with", "color.saturate", "color.rotate_hue"]
VECTOR = re.compile(r"<\d+ x (i8|i16|i32|float)>")
DRAWS = {"random_resized_crop": ["_draw"], "color_jitter": ["_draw"], "taps": ["fill_taps"]}
GLUE = {
    "color_jitter": ["_run"],
    "random_resized_crop": ["_run_image", "_run_mask"],
    "normalize": ["_run"],
    "gamma": ["_draw", "_run"],
    "autocontrast": ["_run"],
    "gaussian_blur": ["_draw", "_run"],
    "gaussian_noise": ["_draw", "_run"],
    "erase": ["_draw", "_run_image", "_run_mask"],
}
LIBM = r"@(exp|log|pow|sin|cos|tan|sqrt|fmod|round|lround|rint|floor|ceil|fma)[fl]?\("


@pytest.fixture(scope="module")
def code(examples, tmp_path_factory):
    """LLVM IR by function."""
    chosen = {name: choices[:2] for name, choices in examples.items()}
    chosen["center_crop"] = [{"size": 24}]
    wanted = {**LOOPS}
    for module, names in (*DRAWS.items(), *GLUE.items()):
        wanted[module] = [*wanted.get(module, []), *names]
    cache = str(tmp_path_factory.mktemp("ir"))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, cache, json.dumps(chosen), json.dumps(wanted)],
        check=True,
        timeout=400,
        stdout=subprocess.PIPE,
        text=True,
    )
    found = json.loads(done.stdout)
    assert all(found.values()), [name for name, ir in found.items() if not ir]
    return found


def instructions(text: str) -> str:
    """Keep the bodies of functions, without numba's wrappers for Python."""
    parts = re.split(r"(?=^define )", text, flags=re.M)
    return "".join(p for p in parts if p.startswith("define") and "cpython" not in p.split("(")[0])


@pytest.mark.slow
def test_pixel_loops_are_vectors(code):
    for module, names in LOOPS.items():
        for name in names:
            modules = code[f"{module}.{name}"]
            assert any(VECTOR.search(ir) for ir in modules), f"{module}.{name} is scalar"


@pytest.mark.slow
def test_integer_loops_stay_in_int32(code):
    for name in BLENDS:
        for ir in code[name]:
            wide = re.findall(r"= mul [^\n]*<\d+ x i64>", instructions(ir))
            assert not wide, f"{name}: {wide[:3]}"
            assert re.search(r"= mul [^\n]*<\d+ x i32>", ir), name


@pytest.mark.slow
def test_no_float64_no_libm_no_fastmath(code):
    for name, modules in code.items():
        for ir in modules:
            body = instructions(ir)
            assert not re.search(LIBM, body), f"{name} calls libm"
            flags = re.findall(r"= f(?:add|sub|mul|div|cmp) (?:fast|reassoc|contract)[^\n]*", body)
            assert not flags, f"{name}: {flags[:3]}"
            module, function = name.split(".")
            if function in LOOPS.get(module, []):
                doubles = re.findall(r"= f(?:add|sub|mul|div)[^\n]* double [^\n]*", body)
                assert not doubles, f"{name}: {doubles[:3]}"
