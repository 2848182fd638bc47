"""Targets of another size than their image, from folders and tables up to the pipeline."""

import numpy as np
import pytest
import skimage.data
from PIL import Image

from stoker import ops
from stoker.dataset import open_dataset
from stoker.dataset.packing.pack import Options, pack
from stoker.pipeline import pipeline
from stoker.protocol.errors import BuildError, DatasetError, SampleError
from stoker.server.rows.reference import make_spec, reference_batches

PHOTO = skimage.data.coffee()[:40, :60]
MASK = PHOTO[::2, ::2, 0] // 64


@pytest.fixture
def folders(tmp_path):
    """Two photographs of different sizes, with masks of half their sides."""
    root = tmp_path / "s"
    for name, side in (("a", 60), ("b", 40)):
        for folder, pixels in (("images", PHOTO[:, :side]), ("masks", MASK[:, : side // 2])):
            (root / folder).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(root / folder / f"{name}.png")
    (root / "all.csv").write_text(
        "image,mask\nimages/a.png,masks/a.png\nimages/b.png,masks/b.png\n"
    )
    return root


@pytest.mark.parametrize(("source", "name"), [("", "masks"), ("all.csv", "mask")])
def test_a_declared_mask_may_have_another_size(tmp_path, folders, source, name):
    with pytest.raises(DatasetError, match=r"it has 40x60 pixels .*, but masks/a.png has 20x30; "
                       r".*--field NAME=mask,relative, .*relative=True"):  # fmt: skip
        pack(folders / source, tmp_path / "d", Options(workers=1))
    for kind in ("mask,relative", "mask,relative,fill=255", "mask,fill=255,relative"):
        options = Options(workers=1, overwrite=True, fields={name: kind})
        pack(folders / source, tmp_path / "d", options)
        with open_dataset(tmp_path / "d") as dataset:
            field = dataset.schema.field("mask")
            assert (field.relative, bool(field.optional)) == (True, "fill" in kind)
            assert np.array_equal(dataset.decode("mask", 0, np.empty(9999, np.uint8)), MASK)


def test_ops_name_relative(tmp_path, folders):
    @pipeline
    def forgotten(sample):
        image, mask = ops.horizontal_flip(sample.image, sample.mask, p=1.0)
        return {"image": ops.resize(image, size=(8, 8)), "mask": ops.resize(mask, size=(8, 8))}

    @pipeline
    def train(sample):
        image, mask = ops.resize(sample.image, sample.mask, size=(20, 30), relative=True)
        image, mask = ops.horizontal_flip(image, mask, p=1.0)
        return {"image": image, "mask": mask}

    pack(folders, tmp_path / "d", Options(workers=1, fields={"masks": "mask,relative"}))
    spec = make_spec(tmp_path / "d", train.graph(), batch_size=2)
    ((_, batch),) = reference_batches(tmp_path / "d", train.graph(), spec)
    (first,) = np.flatnonzero(batch["index"] == 0)
    assert np.array_equal(batch["mask"][first], MASK[:, ::-1])
    spec = make_spec(tmp_path / "d", forgotten.graph(), batch_size=2)
    with pytest.raises((SampleError, BuildError), match="with relative=True"):
        list(reference_batches(tmp_path / "d", forgotten.graph(), spec))
    with pytest.raises(BuildError, match="with relative=True"):
        forgotten({"image": PHOTO, "mask": MASK})
