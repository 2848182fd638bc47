"""The reader: zero-copy views that outlive it, bounded maps, no descriptors, forks, threads."""

import os
import threading

import numpy as np
import pytest

from stoker.dataset import open_dataset, schema
from stoker.dataset.packing.build import Cut, write_dataset
from stoker.protocol.errors import ClosedError, DatasetError, UnknownNameError, UsageError


@pytest.fixture
def folder(tmp_path, photographs, to_jpeg):
    rows = [
        {"image": to_jpeg(pixels), "raw": pixels, "label": number, "caption": b"text" * number}
        for number, pixels in enumerate(photographs.values())
    ]
    fields = (
        schema.image(),
        schema.image("raw", "raw"),
        schema.label(classes=tuple("abcdef")),
        schema.blob("caption"),
    )
    write_dataset(tmp_path / "d", schema.Schema(fields), rows, cut=Cut(rows=1))
    return tmp_path / "d"


def maps_of(folder) -> int:
    with open("/proc/self/maps") as maps:
        return sum(str(folder) in line for line in maps)


def test_maps_are_bounded_and_hold_no_descriptor(folder):
    before = len(os.listdir("/proc/self/fd"))
    dataset = open_dataset(folder, max_maps=2)
    assert maps_of(folder) == 0
    for number in [0, 1, 2, 3, 4, 5, 0, 5]:
        dataset.read("label", number)
        assert maps_of(folder) <= 2
    assert len(os.listdir("/proc/self/fd")) == before
    dataset.close()
    assert maps_of(folder) == 0


def test_the_least_recently_used_map_goes_first(folder):
    dataset = open_dataset(folder, max_maps=2)
    for number in [0, 1, 0, 2]:
        dataset.read("label", number)
    with open("/proc/self/maps") as maps:
        mapped = {line.split("/")[-1][:5] for line in maps if str(folder) in line}
    assert mapped == {"00000", "00002"}
    dataset.close()


def test_views_are_zero_copy_read_only_and_outlive_the_dataset(folder, photographs):
    dataset = open_dataset(folder, max_maps=1)
    jpeg, raw, caption = (dataset.read(name, 3) for name in ("image", "raw", "caption"))
    again = np.frombuffer(dataset.read("image", 3), np.uint8)
    assert np.shares_memory(np.frombuffer(jpeg, np.uint8), again)
    del again
    assert jpeg.readonly
    assert not raw.flags.writeable
    dataset.read("label", 0)
    dataset.close()
    assert np.array_equal(raw, list(photographs.values())[3])
    assert jpeg[:3] == b"\xff\xd8\xff"
    assert caption == b"text" * 3
    assert maps_of(folder) == 1
    del jpeg, raw, caption
    assert maps_of(folder) == 0


def test_a_forked_child_reads_what_its_parent_reads(folder, photographs):
    dataset = open_dataset(folder, max_maps=2)
    view = dataset.read("raw", 1)
    child = os.fork()
    if child == 0:
        good = all(
            np.array_equal(dataset.read("raw", number), pixels)
            for number, pixels in enumerate(photographs.values())
        )
        dataset.close()
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.array_equal(view, list(photographs.values())[1])
    dataset.close()


def test_threads_share_a_dataset(folder, photographs):
    dataset = open_dataset(folder, max_maps=1)
    pictures = list(photographs.values())
    faults = []

    def read(start: int) -> None:
        out = np.empty(300 * 300 * 3, np.uint8)
        for step in range(60):
            number = (start + step) % len(pictures)
            if not np.array_equal(dataset.decode("raw", number, out), pictures[number]):
                faults.append(number)
            dataset.decode("image", number, out)

    threads = [threading.Thread(target=read, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    dataset.close()


def test_usage_errors(folder):
    dataset = open_dataset(folder)
    with pytest.raises(UnknownNameError, match="has no field 'img'; its fields are image, raw, la"):
        dataset.read("img", 0)
    for wrong in (-1, 6):
        with pytest.raises(UsageError, match=f"has ids 0 to 5, got {wrong}"):
            dataset.read("image", wrong)
    with pytest.raises(
        UsageError, match="field 'label' has kind label, but only an image or mask has a height"
    ):
        dataset.size("label", 0)
    for out in (
        np.empty(10, np.uint8),
        np.empty(10**6, np.float32),
        np.empty((9, 10**6), np.uint8),
    ):
        with pytest.raises(UsageError, match="expected flat, contiguous uint8 memory of at least"):
            dataset.decode("image", 0, out)
    dataset.close()
    dataset.close()
    with pytest.raises(ClosedError, match="was closed; open it again"):
        dataset.read("image", 0)


def test_opening_what_is_no_dataset(tmp_path, image_folder):
    with pytest.raises(DatasetError, match=r"there is no folder .*; check the path"):
        open_dataset(tmp_path / "missing")
    (tmp_path / "file").touch()
    with pytest.raises(DatasetError, match="is a file, but a dataset is a folder"):
        open_dataset(tmp_path / "file")
    with pytest.raises(
        DatasetError, match=r"has no manifest\.json: it is not a dataset; make one with"
    ):
        open_dataset(image_folder)
    (tmp_path / "half" / ".packing").mkdir(parents=True)
    with pytest.raises(DatasetError, match="was not packed to the end; run the same"):
        open_dataset(tmp_path / "half")


def test_missing_and_cut_files_are_found_at_opening(folder):
    victim = next(folder.glob("00003*"))
    data = victim.read_bytes()
    victim.write_bytes(data[:-1])
    with pytest.raises(DatasetError, match=rf"has {len(data) - 1} bytes, but the mani"):
        open_dataset(folder)
    victim.unlink()
    with pytest.raises(DatasetError, match=r"cannot read its file 00003.*No such file"):
        open_dataset(folder)


def test_a_file_that_vanishes_after_opening(folder):
    dataset = open_dataset(folder)
    next(folder.glob("00003*")).unlink()
    with pytest.raises(DatasetError, match=r"cannot map its file 00003.*No such file"):
        dataset.read("image", 3)
    dataset.close()
