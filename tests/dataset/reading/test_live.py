"""Live sources in process: what a class must declare, what it may return, what is named."""

import hashlib
import textwrap

import numpy as np
import pytest
from PIL import Image

from stoker.dataset import open_dataset
from stoker.dataset.packing.write import write
from stoker.dataset.reading.describe import describe
from stoker.dataset.verify import verify
from stoker.protocol.errors import DatasetError, SampleError, UsageError

BODY = """
    import numpy as np
    from stoker.dataset import schema

    PIXELS = np.arange(20 * 30 * 3, dtype=np.uint8).reshape(20, 30, 3)

    class Source:
        fields = (
            schema.bounded(schema.image(encoding="raw"), 20, 30, fixed=True),
            schema.bounded(schema.mask(), 40, 40),
            schema.bounded(schema.boxes(fields={"label": "int64"}), 3),
            schema.scalar("weight"),
            schema.array("embedding", "int32", (2,)),
            schema.bounded(schema.array("track", "float32", (None, 2)), 5),
            schema.bounded(schema.blob("text"), 9),
        )
        fingerprint = "version 1"

        def __len__(self):
            return 4

        def __getitem__(self, index):
            row = {
                "image": PIXELS + index,
                "mask": PIXELS[:, :, 0] // 9,
                "boxes": {"xyxy": [[0, 0, index, index]], "label": [index]},
                "weight": 0.5 * index,
                "embedding": [index, 2],
                "track": np.zeros((index, 2)),
                "text": b"hello",
            }
            row.update(self.changes())
            return row

        def changes(self):
            return {}
"""


@pytest.fixture
def module(tmp_path, monkeypatch, request):
    """Writes a module of sources and gives back `module:` of its classes."""
    monkeypatch.syspath_prepend(tmp_path)

    def make(more: str = "") -> str:
        digest = hashlib.blake2b(f"{request.node.name}{more}".encode(), digest_size=8)
        name = f"live_{digest.hexdigest()}"
        text = textwrap.dedent(BODY) + textwrap.dedent(more)
        (tmp_path / f"{name}.py").write_text(text)
        return f"{name}:"

    return make


def test_every_kind_of_field(tmp_path, module):
    name = module() + "Source"
    source = __import__(name.partition(":")[0]).Source()
    write(tmp_path / "packed", source.fields, source)
    with open_dataset(name) as dataset, open_dataset(tmp_path / "packed") as packed:
        assert dataset.fingerprint.startswith("declared:")
        assert len(dataset) == len(packed) == 4
        assert dataset.schema.field("image").shape == (20, 30, 3)
        for number in range(4):
            for field in ("image", "boxes", "weight", "embedding", "track", "text"):
                one, two = dataset.read(field, number), packed.read(field, number)
                assert np.array_equal(np.asarray(one), np.asarray(two)), field
            out = np.empty((2, 20 * 30 * 3), np.uint8)
            for field in ("image", "mask"):
                one, two = (
                    dataset.decode(field, number, out[0]),
                    packed.decode(field, number, out[1]),
                )
                assert np.array_equal(one, two)
                assert dataset.size(field, number) == (20, 30)
                assert dataset.orientation(field, number) == 1
            assert dataset.digest(number) == packed.digest(number)
            assert dataset.source(number) is None
        assert not dataset.gather("weight", np.arange(4), np.empty(4, np.float32))
        with pytest.raises(UsageError, match=r"ids 0 to 3, got 4"):
            dataset.read("weight", 4)
        with pytest.raises(UsageError, match=r"sizes of its images are not known before they are"):
            next(dataset.sizes("image"))
        with pytest.raises(UsageError, match=r"the size of 'image' is not known .* outputs.as_l"):
            dataset.sizes_of("image", np.arange(2))
        with pytest.raises(UsageError, match="not known before its samples are made; pack it, to"):
            dataset.lengths("label")
        with pytest.raises(UsageError, match=r"its samples are not in a file"):
            dataset.locate("image", 0)
        shown = describe(dataset, 2)
        assert shown["samples"][1]["fields"]["embedding"] == "int32 (2,): 1, 2"
        dataset.will_need(["image"], np.arange(4))
    with pytest.raises(UsageError, match=r"got the live source .*, which stores nothing to veri"):
        verify(name)


def test_the_fingerprint_has_the_declaration_the_class_and_its_source(module):
    more = """
        class Other(Source):
            fingerprint = "version 2"

        class Same(Source):
            pass

        class Longer(Source):
            def __len__(self):
                return 5
        """
    name, edited = module(more), module(f"{more}\n# edited")
    found = []
    for kind in (
        f"{name}Source",
        f"{name}Other",
        f"{name}Same",
        f"{name}Longer",
        f"{edited}Source",
    ):
        with open_dataset(kind) as dataset:
            found.append(dataset.fingerprint)
        with open_dataset(kind, expected=found[-1]):
            pass
    assert len(set(found)) == 5
    with pytest.raises(
        DatasetError, match=rf"expected fingerprint {found[1]}, as when the stream was opened"
    ):
        open_dataset(name + "Source", expected=found[1])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("fields = None", "expected attributes `fields`, made by stoker.dataset.schema, and"),
        ("fingerprint = ''", "text of 1 to 1024 characters, got .* and ''"),
        (
            "fields = (schema.image(),)",
            r"field 'image' has the open shape .*; declare its largest size",
        ),
        (
            "fields = (schema.image(grid=True),)",
            "only packed images and masks can have grids or bands",
        ),
        ("__len__ = lambda self: 0", "has no samples"),
        ("def __init__(self): raise OSError('no disk')", "making it failed with OSError: no disk"),
    ],
)
def test_a_class_that_declares_too_little(module, body, reason):
    name = module(f"\nclass Bad(Source):\n    {body}\n")
    with pytest.raises(DatasetError, match=reason):
        open_dataset(name + "Bad")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ("{'more': 1}", r"expected a dict of boxes, embedding, .*, got image, mask"),
        ("{'image': PIXELS[:9]}", r"expected a shape \(20, 30, 3\) of at most \(20, 30, 3\), got"),
        ("{'mask': np.zeros((50, 9), np.uint8)}", r"at most \(40, 40\), got \(50, 9\)"),
        ("{'mask': b'text'}", "field 'mask': it is neither a JPEG nor a PNG"),
        ("{'text': b'0123456789'}", r"'text': expected a shape .* of at most \(9,\), got \(10,\)"),
        ("{'boxes': {'xyxy': [[0, 0, 99, 1]], 'label': [0]}}", "outside their image"),
        ("{'weight': 'heavy'}", "field 'weight': expected float32, got"),
        ("1 / 0", "id 1: ZeroDivisionError: division by zero"),
    ],
)
def test_samples_that_do_not_fit_are_bad_samples(module, changes, reason):
    name = module(f"\nclass Bad(Source):\n    def changes(self):\n        return {changes}\n")
    with open_dataset(name + "Bad") as dataset, pytest.raises(SampleError, match=reason) as found:
        dataset.read("weight", 1)
    assert found.value.details["id"] == 1


def test_an_input_error_is_tried_again(module):
    name = module(
        """
        class Flaky(Source):
            left = 2
            def changes(self):
                if self.left:
                    self.left -= 1
                    raise TimeoutError("too slow")
                return {}
        class Gone(Source):
            left = 3
            changes = Flaky.changes
        class Wrong(Source):
            left = 2
            def changes(self):
                Flaky.changes(self)
                raise ValueError("of no use")
        """
    )
    with open_dataset(name + "Flaky") as dataset:
        assert dataset.read("weight", 3) == 1.5
    with open_dataset(name + "Gone") as dataset:
        with pytest.raises(DatasetError, match=r"id 3: 3 tries failed, the last with TimeoutError"):
            dataset.read("weight", 3)
        assert dataset.read("weight", 3) == 1.5
    with (
        open_dataset(name + "Wrong") as dataset,
        pytest.raises(SampleError, match="ValueError: of no use"),
    ):
        dataset.read("weight", 3)


def test_a_picture_that_keeps_its_orientation(module, photographs, to_jpeg, tmp_path):
    (tmp_path / "a.jpg").write_bytes(to_jpeg(photographs["coffee"], 6))
    name = module(
        f"""
        from pathlib import Path
        class Kept(Source):
            fields = (schema.keep_orientation(schema.bounded(schema.image(), 500, 500)),)
            def __getitem__(self, index):
                return {{"image": Path({str(tmp_path / "a.jpg")!r}).read_bytes()}}
        """
    )
    with open_dataset(name + "Kept") as dataset:
        pixels = dataset.decode("image", 0, np.empty(10**6, np.uint8))
    assert np.array_equal(pixels, np.asarray(Image.open(tmp_path / "a.jpg")))


PILLOW = """
import io, urllib.error
from PIL import Image

JPEG = io.BytesIO()
Image.fromarray(np.tile(PIXELS, (9, 9, 1))).save(JPEG, "JPEG")

class Slow(io.BytesIO):
    def read(self, size=-1):
        raise urllib.error.URLError("the archive is asleep")

class Reading(Source):
    def changes(self):
        return {"image": np.asarray(Image.open(self.file()).convert("RGB"))}

class Truncated(Reading):
    def file(self):
        return io.BytesIO(JPEG.getvalue()[:1000])

class Unknown(Reading):
    def file(self):
        return io.BytesIO(b"no picture")

class Remote(Reading):
    def file(self):
        return Slow()

class Missing(Reading):
    def file(self):
        return "no/such/file.jpg"
"""


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ("Truncated", r"id 2: OSError: image file is truncated"),
        ("Unknown", r"id 2: UnidentifiedImageError: cannot identify image file"),
    ],
)
def test_a_file_that_pillow_cannot_decode_is_a_bad_sample(module, made, reason):
    with (
        open_dataset(module(PILLOW) + made) as dataset,
        pytest.raises(SampleError, match=reason) as found,
    ):
        dataset.read("weight", 2)
    assert found.value.details["id"] == 2


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ("Remote", r"3 tries failed, the last with URLError: .*the archive is asleep"),
        ("Missing", r"3 tries failed, the last with FileNotFoundError"),
    ],
)
def test_a_file_that_pillow_cannot_read_is_tried_again(module, made, reason):
    with (
        open_dataset(module(PILLOW) + made) as dataset,
        pytest.raises(DatasetError, match=reason),
    ):
        dataset.read("weight", 2)
