"""Clips: rows of several frames against an oracle of this file; `law_streams` has their streams."""

from pathlib import Path

import law_pipelines
import numpy as np
import pytest
from commands import call
from law_datasets import CLIP_LENGTHS, frames, write_clips

from stoker import ops
from stoker.client import Loader
from stoker.dataset.packing.splitting import split
from stoker.pipeline import Row, pipeline, sample_frames
from stoker.protocol.errors import BuildError, SampleError, UsageError
from stoker.protocol.spec import OrderSpec
from stoker.server.rows.reference import make_spec, reference_batches

pytestmark = pytest.mark.as_a_user

STREAM = {"pipeline": "clips", "dataset": "clips", "seed": 5}


@pytest.mark.slow
def test_frames_share_every_decision_and_come_in_order(address, photographs):
    """Oracle: each frame of a row alone, as an image, with the row's draws."""
    stored = list(frames(photographs))
    seen = set()
    with Loader(address, batch_size=3, device="numpy", params=True, **STREAM) as loader:
        assert loader.spec.dataset_rows == len(CLIP_LENGTHS)
        for batch in loader:
            assert batch.image.shape == (3, 4, 48, 48, 3)
            for row, clip in enumerate(batch.index.tolist()):
                numbers, length = batch.frame[row].tolist(), CLIP_LENGTHS[clip]
                start = numbers[0]
                assert numbers == [min(start + 3 * k, length - 1) for k in range(4)]
                assert 0 <= start <= max(length - 10, 0)
                assert batch.label[row].tolist() == [clip % 2] * 4
                first = sum(CLIP_LENGTHS[:clip])
                for place, number in enumerate(numbers):
                    fields = stored[first + number]
                    alone = by_itself(fields, clip, batch)
                    assert np.array_equal(batch.image[row, place], alone["image"])
                    assert np.array_equal(batch.mask[row, place], alone["mask"])
                seen.add((clip, start))
    assert {clip for clip, _ in seen} == set(range(len(CLIP_LENGTHS)))


def by_itself(fields, clip, batch):
    """A frame through the pipeline without `sample_frames`."""
    plain = pipeline(law_pipelines.clip_ops)
    return plain({**fields, "image": np.ascontiguousarray(fields["image"])}, seed=5, id=clip,
                 epoch=batch.epoch)  # fmt: skip


def test_starts_are_drawn_for_each_epoch_and_clip():
    clip = law_pipelines.clips.graph().clip
    starts = [clip.numbers(30, Row(5, 0, epoch), None)[0] for epoch in range(400)]
    assert set(starts) == set(range(21))
    counts = np.bincount(starts)
    assert counts.min() > 4
    assert counts.max() < 50
    frozen = {clip.numbers(30, Row(5, 0, epoch), 3)[0] for epoch in range(9)}
    assert len(frozen) == 1
    each = {clip.numbers(30, Row(5, 2, epoch), "epoch")[0] for epoch in range(9)}
    assert len(each) == 1


@pytest.mark.slow
def test_center_and_loop(address):
    given = {"dataset": "clips", "pipeline": "clip_centers", "shuffle": False}
    with Loader(address, batch_size=6, device="numpy", **given) as loader:
        (batch,) = loader
        found = batch.frame.tolist()
        replayed = loader.replay_row(batch, 3)
    spans = [(length - 9) // 2 if length >= 9 else 0 for length in CLIP_LENGTHS]
    assert found == [
        [(start + 2 * k) % length for k in range(5)]
        for start, length in zip(spans, CLIP_LENGTHS, strict=True)
    ]
    (image,) = (value.array for value in replayed.outputs if value.name == "image")
    assert np.array_equal(image, batch.image[3, 0])


@pytest.mark.slow
def test_subset_weights_and_exclude_count_clips(address):
    given = {"dataset": "clips", "pipeline": "clip_centers", "batch_size": 2, "device": "numpy"}
    with Loader(address, subset=[1, 4], **given) as loader:
        assert sorted(np.concatenate([batch.index for batch in loader]).tolist()) == [1, 4]
    with Loader(address, weights={"run": 1, "walk": 0}, **given) as loader:
        found = np.concatenate([batch.index for batch in loader])
        assert set(found.tolist()) <= {0, 2, 4}
    with pytest.raises(UsageError, match=r"exclude: .*6"):
        Loader(address, exclude=[6], **given)


@pytest.mark.slow
def test_what_clips_cannot_do_is_refused_by_name(address):
    with pytest.raises(UsageError, match=r"expected an integer field 'clip' .* its fields are"):
        Loader(address, dataset="photos", pipeline="clips", batch_size=2)
    pipelines = {"clips": "clips", "photos": "windows"}
    with pytest.raises(BuildError, match=r"mix: output 'image' of 'clips' is .*, of 'photos' imag"):
        Loader(address, mix={"clips": 1, "photos": 1}, pipeline=pipelines, batch_size=2)


@pytest.mark.slow
def test_a_split_of_whole_clips(address, every):
    """The frames of a split are those of whole clips, or the split is refused."""
    ids = np.cumsum([0, *CLIP_LENGTHS])
    first = list(range(ids[1])) + list(range(ids[3], ids[4]))
    split(every["smaller"], {"some": first, "cut": [*range(ids[1], ids[2] - 1)], "rest": "rest"})
    given = {**STREAM, "dataset": "smaller", "batch_size": 1}
    for subset in ("some", "split == 'some'"):
        with Loader(address, device="numpy", subset=subset, **given) as loader:
            assert sorted(int(batch.index[0]) for batch in loader) == [0, 3]
    why = r"split 'cut' has 11 of the 12 frames of clip 1, so the"
    for subset in ("cut", "id > 0 and split == 'cut'"):
        with pytest.raises(UsageError, match=why):
            Loader(address, subset=subset, **given)


def test_frames_that_do_not_follow_each_other_are_refused(tmp_path, photographs):
    write_clips(tmp_path / "d", frames(photographs, numbers=[0, 1, 2, 0, 4, 5]))
    folder = Path(law_pipelines.__file__).parent
    words = ("explain", "law_pipelines:clips", tmp_path / "d", "--python-path", folder)
    code, _, error = call(*words, COLUMNS="9999")
    assert code == 1
    assert "clip 0 begins a second time at row 52: " in error
    assert "must follow" in error


def test_a_short_clip_can_be_an_error():
    @pipeline
    def strict(sample):
        sample = sample_frames(sample, frames=3, stride=2, start=1, short="error")
        return {"image": ops.horizontal_flip(sample.image)}

    some = [np.zeros((8, 8, 3), np.uint8)] * 5
    with pytest.raises(SampleError, match="has 5 frames, but 3 frames with a stride of 2 from fra"):
        strict({"image": some})
    assert strict({"image": [*some, some[0]]})["image"].shape == (3, 8, 8, 3)


def test_frames_of_several_sizes_are_a_bad_sample(tmp_path, photographs):
    rows = list(frames(photographs))
    rows[3]["image"] = np.ascontiguousarray(rows[3]["image"][:60])
    rows[3]["mask"] = rows[3]["mask"][:60]
    write_clips(tmp_path / "d", rows)
    graph = law_pipelines.clip_centers.graph()  # takes frames 10, 12, ... of clip 0
    every = pipeline(
        lambda s: {"x": ops.center_crop(sample_frames(s, frames=9, start=0).image, size=8)}
    )
    fields = {"batch_size": 6, "order": OrderSpec(shuffle=False), "on_error": "mask"}
    for given, valid in ((graph, [True] * 6), (every.graph(), [False, *[True] * 5])):
        spec = make_spec(tmp_path / "d", given, **fields)
        ((_, batch),) = reference_batches(tmp_path / "d", given, spec)
        assert batch["valid"].tolist() == valid
    spec = make_spec(tmp_path / "d", every.graph(), **{**fields, "on_error": "raise"})
    with pytest.raises(
        SampleError, match=r"sample 0: expected frames of one size, .* 60x90 and 70x90"
    ):
        list(reference_batches(tmp_path / "d", every.graph(), spec))
