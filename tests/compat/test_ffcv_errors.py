"""The errors of the FFCV layer, once each, as a script meets them."""

import importlib
import re
import sys
from collections.abc import Callable
from types import SimpleNamespace

import batch_ops
import drawing_ops
import ffcv_ops
import kinds_arrays
import kinds_python
import numpy as np
import public_ops
import pytest
import seeded_ops
import torch

from stoker.compat.ffcv import Loader, transforms
from stoker.compat.ffcv import fields as f
from stoker.compat.ffcv.compiled_step import CompiledStep
from stoker.compat.ffcv.field_reading import array_state
from stoker.compat.ffcv.fields.decoders import (
    BytesDecoder,
    CenterCropRGBImageDecoder,
    IntDecoder,
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
)
from stoker.compat.ffcv.operation_function import OperationFunction
from stoker.compat.ffcv.reader import Reader
from stoker.compat.ffcv.transforms import (
    ImageMixup,
    LabelMixup,
    MixupToOneHot,
    NormalizeImage,
    RandomHorizontalFlip,
    RandomTranslate,
    Squeeze,
    SynchronizeSeed,
    ToTensor,
)
from stoker.compat.ffcv.traversal_order import TraversalOrder
from stoker.ops.custom.foreign import generator
from stoker.protocol.errors import BuildError, UnknownNameError, UsageError
from stoker.rng.streams import make_key

IMAGES, LABELS = array_state((6, 8, 3), "uint8"), array_state((1,), "int64")
EDITED = """
from stoker.compat.ffcv.pipeline import AllocationQuery, Operation


class Fill(Operation):
    def generate_code(self):
        def run(labels, dst):
            dst[:] = {number}
            return dst

        return run

    def declare_state_and_memory(self, previous_state):
        return previous_state, AllocationQuery(previous_state.shape, previous_state.dtype)
"""


class ImageShift(ffcv_ops.Shift):
    pass


class MaskShift(ffcv_ops.Shift):
    pass


class ImageTurn(ffcv_ops.Shift):
    stream = "turn"


class MaskTurn(ffcv_ops.Shift):
    stream = "turn"


def crop(side: int) -> RandomResizedCropRGBImageDecoder:
    return RandomResizedCropRGBImageDecoder((side, side))


def written(fields: dict, *samples: tuple) -> Callable:
    """A call that writes samples."""
    return lambda data: data.write(fields, samples)


def loader(**arguments) -> Callable:
    """A call that makes a loader of the pictures."""
    return lambda data: Loader(data.packed, **{"batch_size": 10, **arguments})


def order(ids: list) -> Callable:
    """A call that begins an epoch in a script's own order."""
    given = type("Given", (TraversalOrder,), {"sample_order": lambda self, epoch: ids})
    return lambda data: iter(loader(order=given)(data))


def image(*operations: object) -> Callable:
    """A call that makes a loader with operations on images; so do `label`, `both` and `views`."""
    return loader(pipelines={"image": [SimpleRGBImageDecoder(), *operations], "label": None})


def label(*operations: object) -> Callable:
    return loader(pipelines={"image": None, "label": [IntDecoder(), *operations]})


def both(images: list, labels: list) -> Callable:
    lists = {"image": [SimpleRGBImageDecoder(), *images], "label": [IntDecoder(), *labels]}
    return loader(pipelines=lists)


def views(left: list, right: list) -> Callable:
    lists = {"left": left, "right": right, "weight": None}
    return lambda data: Loader(data.two_views, 12, pipelines=lists)


def decoded(left: list, right: list) -> Callable:
    return views([SimpleRGBImageDecoder(), *left], [SimpleRGBImageDecoder(), *right])


def step(operation: object, state: object = IMAGES) -> Callable:
    """A call that builds an operation on `state`, and tries it."""
    name = f"{type(operation).__name__} of field 'image'"
    return lambda _: CompiledStep(operation, state, name, "s")


def in_pipeline(operation: object) -> Callable:
    """A call of an operation as a step of a Stoker pipeline."""
    rng = generator(make_key(1, 2, 3, 4))
    return lambda _: OperationFunction(operation)(np.zeros((4, 4, 3), np.uint8), rng)


def read_labels_of_ten_classes_as_five(data) -> None:
    list(label(LabelMixup(0.4, same_lambda=True), ToTensor(), MixupToOneHot(5))(data))


def set_size_of_nothing(data) -> None:
    """Set a decoder's attribute between two epochs."""
    decoder = CenterCropRGBImageDecoder((16, 16), ratio=1.0)
    made = loader(pipelines={"image": [decoder, ToTensor()], "label": None})(data)
    decoder.output_size = (0, 0)
    iter(made)


ERRORS = [
    # Writing and reading.
    (written({"a": f.IntField()}, (1,), (2, 3)), UsageError,
     r"sample 1: expected one value for each field \(a\), got 2 values"),
    (written({"a": f.NDArrayField("float32", (2,))}, (np.zeros(3, np.float32),)), UsageError,
     r"sample 0, field 'a': expected float32 of shape \(2,\)"),
    (written({"a": f.RGBImageField()}, (np.zeros((3, 3)),)), UsageError,
     r"field 'a': RGBImageField: expected a PIL image or \(H"),
    (lambda _: f.RGBImageField(write_mode="png"), UsageError,
     "expected write_mode to be one of raw, jpg, smart, prop"),
    (lambda data: Reader(data.packed, {"image": f.RGBImageField}), UsageError,
     "custom_handlers: expected none"),
    # Arguments of a Loader.
    (loader(batch_size=0), UsageError,
     "expected batch_size and batches_ahead from 1, got batch_size=0, batches_ahead=3"),
    (loader(batch_size=51), UsageError, "leaves no step"),
    (loader(custom_fields={"a": 1}), UsageError, "a Stoker dataset has its own fields"),
    (loader(distributed=True), UsageError,
     r"torch.distributed is not initialized .* call torch.distributed.init_process_group before"),
    (loader(distributed=True, drop_last=False), UsageError,
     "distributed: expected drop_last=True, so that all ranks have the same"),
    (loader(indices=[]), UsageError, "indices: expected ids from 0 to 49, got none"),
    (loader(indices=[-1, 3]), UsageError, "indices: expected ids from 0 to 49, got -1 to 3"),
    (loader(indices=[3, 50]), UsageError, "indices: expected ids from 0 to 49, got 3 to 50"),
    *[
        (loader(order=wrong), UsageError, "order: expected an OrderOption, or a class that inh")
        for wrong in ("random", dict, lambda loader: [1, 2])
    ],
    (order([0, 50]), UsageError,
     r"Given.sample_order\(0\): expected ids from 0 to 49, got 0 to 50"),
    (order([-1, 0]), UsageError, "expected ids from 0 to 49, got -1 to 0"),
    (order([0.5]), UsageError, r"expected a sequence of sample ids, got float64 of shape \(1,\)"),
    (order([[1, 2]]), UsageError,
     r"expected a sequence of sample ids, got int64 of shape \(1, 2\)"),
    *[
        (lambda data, name=name: setattr(Loader(data.packed, 10), name, 1), UsageError,
         rf"Loader\.{name} cannot be set.*build a new Loader\({name}=")
        for name in ("batch_size", "drop_last", "indices", "order", "seed")
    ],
    # Lists of operations.
    (loader(pipelines={"imag": []}), UnknownNameError, "no field 'imag'; it has image, label"),
    (loader(pipelines={"image": []}), BuildError, "expected a decoder as its first .* got nothing"),
    (loader(pipelines={"image": [ToTensor()]}), BuildError, "expected a decoder .* got ToTensor"),
    (loader(pipelines={"image": [IntDecoder()]}), BuildError,
     "expected a field of kind label or sc"),
    (loader(pipelines={"label": [BytesDecoder()]}), BuildError, "expected a field of kind bytes"),
    (views([SynchronizeSeed()], [SimpleRGBImageDecoder()]), BuildError,
     "expected a decoder as its first operation, got nothing"),
    (label(3), BuildError, "expected an Operation or a torch.nn.Module, got 3"),
    (label(ToTensor(), ToTensor()), BuildError, "expected arrays, got tensors"),
    (label(Squeeze()), BuildError,
     r"Squeeze: expected tensors, got arrays: put ToTensor\(\) before it"),
    (loader(pipelines={"image": [CenterCropRGBImageDecoder((16, 16), ratio=0)]}), BuildError,
     "CenterCropRGBImageDecoder: expected a ratio above 0, got 0"),
    (set_size_of_nothing, BuildError,
     r"CenterCropRGBImageDecoder: expected output_size to be \(height, width\), from 1 to 65535, "
     r"got \(0, 0\)"),
    *[
        (loader(pipelines={"image": [RandomResizedCropRGBImageDecoder(size)]}), BuildError,
         rf"RandomResizedCropRGBImageDecoder: expected output_size .*, got {re.escape(str(size))}")
        for size in (16, (16, 0), (2.5, 16), (1, 2, 3))
    ],
    # Transforms: their arguments, and where they stand.
    *[
        (lambda _, alpha=alpha: ImageMixup(alpha, same_lambda=True), UsageError,
         "ImageMixup: expected alpha from 1e-06 to 1e")
        for alpha in (0, -1.0, float("nan"), 1e9)
    ],
    (image(ToTensor(), ImageMixup(0.4, same_lambda=True)), BuildError,
     r"expected arrays, got torch\.uint8 of shape .*put ToTensor\(\) after it"),
    (image(NormalizeImage([0] * 3, [1] * 3, np.float16), ImageMixup(0.4, same_lambda=True)),
     BuildError, "got NumPy float16.*before the NormalizeImage"),
    (both([ImageMixup(0.4, same_lambda=True)], [LabelMixup(0.2, same_lambda=True)]), BuildError,
     r"LabelMixup of field 'label': expected alpha=0\.4, as ImageMixup of field 'image' ha"),
    (both([ImageMixup(0.4, same_lambda=True)], [LabelMixup(0.4, same_lambda=False)]), BuildError,
     "expected same_lambda=True, as ImageMixup"),
    (label(ToTensor(), LabelMixup(0.4, same_lambda=True)), BuildError,
     "one label per row, got torch"),
    (label(MixupToOneHot(10)), BuildError, r"of shape \(3,\) from LabelMixup, got NumPy int64"),
    (label(ToTensor(), MixupToOneHot(10)), BuildError, "put LabelMixup.* before it"),
    (read_labels_of_ten_classes_as_five, UsageError,
     "expected labels from 0 to 4, got 0 to 9: correct num_cl"),
    (image(ToTensor(), NormalizeImage((120.0, 110.0, 100.0), (60.0, 50.0, 40.0), np.float32)),
     BuildError, r"expected uint8 tensors .* put ToTorchImage\(\) before it"),
    (image(transforms.Poison(np.zeros((5, 5, 3)), 0.5, [1])), BuildError,
     r"as its mask has, got NumPy uint8 .*: give a mask of the size of the images"),
    (image(transforms.Poison(np.zeros((32, 32, 3)), np.ones(3), [1])), BuildError,
     r"Poison: expected alpha to be a number or of shape \(32, 32\), got \(3,\)"),
    *[
        (lambda _, given=given: transforms.RandomBrightness(*given), UsageError,
         "expected magnitude from 0 and p from 0 to 1")
        for given in ((-0.1,), (0.4, 1.5), (float("nan"),))
    ],
    (image(ToTensor(), transforms.RandomContrast(0.4)), BuildError,
     r"RandomContrast: expected uint8 arrays \(H, W, 3\), got torch"),
    (lambda _: RandomHorizontalFlip(50), UsageError,
     "RandomHorizontalFlip: expected flip_prob from 0 to 1, g"),
    (image(ToTensor(), transforms.RandomResizedCrop((0.1, 1), (1, 1), 8)), BuildError,
     r"RandomResizedCrop: expected arrays \(H, W, C\), got torch"),
    # What pipelines share.
    (lambda _: SynchronizeSeed("crop"), UsageError,
     "expected seed_offset to be an integer or None, got 'cr"),
    (decoded([SynchronizeSeed(), RandomHorizontalFlip()], [RandomHorizontalFlip()]), BuildError,
     r"pipelines\['left'\]: SynchronizeSeed\(0\) shares nothing, because no other pipeline"),
    (decoded(
         [SynchronizeSeed(1), RandomHorizontalFlip()],
         [SynchronizeSeed(2), RandomHorizontalFlip()],
     ), BuildError,
     r"SynchronizeSeed\(1\) shares nothing, because no other pipeline has it"),
    (decoded(
         [RandomHorizontalFlip(), SynchronizeSeed()], [SynchronizeSeed(), RandomHorizontalFlip()]
     ), BuildError,
     r"pipelines\['left'\]: SynchronizeSeed\(0\) shares nothing, because no operation aft"),
    (decoded(
         [SynchronizeSeed(), RandomHorizontalFlip(), ImageShift()],
         [SynchronizeSeed(), RandomHorizontalFlip(), MaskShift()],
     ), BuildError,
     "ImageShift of field 'left' and MaskShift of field 'right' would not decide alike.*str"),
    (decoded(
         [SynchronizeSeed(), RandomHorizontalFlip(0.5)],
         [SynchronizeSeed(), RandomHorizontalFlip(0.7)],
     ), BuildError,
     r"of field 'right': expected flip_prob=0\.5, as .* has, got flip_prob=0\.7"),
    (decoded([SynchronizeSeed(), RandomTranslate(3)], [SynchronizeSeed(), RandomTranslate(4)]),
     BuildError, "expected padding=3, as RandomTranslate of field 'left' has, got padding=4"),
    (decoded(
         [SynchronizeSeed(), ToTensor(), torch.nn.Threshold(1, 0)],
         [SynchronizeSeed(), ToTensor(), torch.nn.Threshold(2, 0)],
     ), BuildError,
     r"expected module=Threshold\(threshold=1, value=0\), as .* got module=Threshold\(threshold=2"),
    (decoded([ImageTurn("array")], [MaskTurn("loop")]), BuildError,
     "expected how='array', as ImageTurn"),
    (views([SynchronizeSeed(), crop(16)], [SynchronizeSeed(), crop(8)]), BuildError,
     r"expected output_size=\(16, 16\), as .*=\(8, 8\)"),
    # Operations of a script.
    (image(batch_ops.Never()), BuildError,
     r"batch_ops.py:\d+: Never .*: images\[row - 1\] reads an"),
    (image(kinds_arrays.DeniedHalves()), BuildError,
     "depends on the other rows.* has is_batch_op = False"),
    (both(
         [kinds_arrays.EvenMixup()],
         [seeded_ops.Seeded("last"), public_ops.FixedLabels(np.arange(50))],
     ), BuildError,
     r"Seeded of field 'label' is not\. Both seed their draws"),
    (image(kinds_python.Transformed(kinds_python.SeedsItself())), BuildError,
     "it would draw the same in every epoch: seed in the op"),
    *[
        (label(seeded_ops.Generator(how)), BuildError,
         r"seeded_ops.py:\d+: .*draw the same in every epoch")
        for how in ("generator", "state")
    ],
    *[
        (label(operation), BuildError, r"public_ops.py:\d+: .* fails on .*: IndexError")
        for operation in (
            public_ops.RelabelClasses({0: 1, 5: 2}),
            public_ops.FixedLabels(np.arange(49)),
        )
    ],
    (image(ToTensor(), drawing_ops.Turns(fails=True)), BuildError,
     r"Turns of field 'image' fails on torch.*drawing_ops.py:\d"),
    (step(ffcv_ops.Leaves()), BuildError,
     r"ffcv_ops.py:\d+: Leaves of .* fails on .*SystemExit: 3\. It declared [^.]*$"),
    (step(ffcv_ops.Remembers()), BuildError, "it returned two results for the same rows"),
    (step(drawing_ops.OfTensors()), BuildError,
     "because the operation makes arrays, got torch.int64"),
    *[
        (step(drawing_ops.Misused(function), LABELS), BuildError,
         rf"drawing_ops.py:\d+: .*{message}")
        for function, message in (
            (drawing_ops.chances, "expected probabilities from 0 whose sum is 1"),
            (drawing_ops.negative, "expected probabilities from 0 whose sum is 1"),
            (drawing_ops.few, "fewer values than the size can be chosen"),
            (drawing_ops.few_likely, "fewer values than the size can be chosen"),
            (drawing_ops.table, "values in one dimension"),
            (drawing_ops.shapes, "expected shapes a and b from 1e-6"),
            (drawing_ops.empty, "expected low < high"),
            (
                drawing_ops.unknown,
                "expected replace to be True, False or a variable of generate_code",
            ),
        )
    ],
    # Operations in a pipeline of Stoker.
    (lambda _: OperationFunction(ffcv_ops.DeclaredMean()), BuildError,
     "DeclaredMean mixes the rows of a batch"),
    *[
        (in_pipeline(operation), BuildError, "mixes the rows of a batch, but in a pipeline it wo")
        for operation in (
            batch_ops.Blend(0.4, one_share=False),
            batch_ops.Seldom(),
            batch_ops.Turned(),
        )
    ],
    (in_pipeline(kinds_python.OwnToTensor()), BuildError,
     "OwnToTensor makes tensors; a step of a pipeline makes"),
]  # fmt: skip
OF_MACHINE_CODE = [
    (image(ffcv_ops.Chooses()), BuildError,
     r"ffcv_ops.py:\d+: .*several draws .*, so it cannot be passed on"),
    (image(ffcv_ops.Counts()), BuildError,
     r"with_counter is not of FFCV, but of its fork .*: seed with indices\[-1\]"),
    (image(ffcv_ops.FewerRows()), BuildError,
     r"returned an array of shape \(\d+, 32, 32, 3\) for \d+ rows, but it declared"),
    (image(ffcv_ops.Gamma()), BuildError,
     r"ffcv_ops.py:\d+: .*np.random.gamma cannot be drawn per row; supported"),
    (image(ffcv_ops.HandsOn()), BuildError,
     r"ffcv_ops.py:\d+: .*np.random.rand cannot be passed on: call it directly"),
    (image(ffcv_ops.Lambda()), BuildError, "generate_code must return a function made with `def`"),
    (image(ffcv_ops.Pair()), BuildError,
     "Pair of field 'image' returned tuple, but it declared NumPy uint8 of shape"),
    (image(ffcv_ops.PassesOn()), BuildError,
     r"ffcv_ops.py:\d+: .*draw_one draws .*, so it cannot be passed on"),
    (image(ffcv_ops.Recurses()), BuildError, "draws_again draws random numbers and calls itself"),
    (image(ffcv_ops.SeededByNothing()), BuildError,
     r"ffcv_ops.py:\d+: .*np.random.seed\(\): expected a number"),
    (image(ffcv_ops.Untypable()), BuildError, "fails on NumPy uint8 of shape .*: TypingError"),
    (image(ffcv_ops.WithoutSource()), BuildError,
     "cannot find the source of shifts; operations are rewritten from their"),
    (step(ffcv_ops.Wraps(beyond=1)), BuildError, "Wraps of field 'image' fails on .*: IndexError"),
]  # fmt: skip
"""Operations that are compiled, as they are without `Compiler.set_enabled(False)`."""


@pytest.fixture(scope="module")
def data(packed, two_views, write):
    return SimpleNamespace(packed=packed, two_views=two_views, write=write)


@pytest.mark.parametrize(
    ("call", "error", "message"), ERRORS, ids=[message[:60] for *_, message in ERRORS]
)
def test_what_is_refused(data, interpreted, call, error, message):
    with pytest.raises(error, match=message) as caught:
        call(data)
    assert caught.type is error


@pytest.mark.parametrize(
    ("call", "error", "message"),
    OF_MACHINE_CODE,
    ids=[message[:60] for *_, message in OF_MACHINE_CODE],
)
def test_what_cannot_be_compiled_is_refused_when_it_is_built(data, call, error, message):
    with pytest.raises(error, match=message):
        call(data)


def test_an_operation_whose_file_was_edited_is_refused(packed, interpreted, tmp_path, monkeypatch):
    """Operations are rewritten from their source, so a later edit must not be read."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "edited_operation.py"
    file.write_text(EDITED.format(number=1))
    fill = importlib.import_module("edited_operation").Fill
    try:
        lines = {"label": [IntDecoder(), fill(), ToTensor()], "image": None}
        file.write_text(EDITED.format(number=2))
        with pytest.raises(BuildError, match=r"Fill of field .label.: .*edited_operation\.py was"):
            Loader(packed, 6, pipelines=lines)
    finally:
        del sys.modules["edited_operation"]
