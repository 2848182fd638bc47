"""The Law's rig: a packed dataset of photographs, a real daemon, and the stream it delivers."""

import io
import itertools
import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace

import daemons
import numpy as np
import pyarrow as pa
import pytest
import skimage.data
from commands import pack_folder
from daemons import Daemon
from loading import grouped
from PIL import Image
from sample_photographs import sample_photographs

from stoker.client import Loader
from stoker.dataset import schema, write
from stoker.protocol.digest import batch_digest, digest_parts
from stoker.server.rows.reference import make_spec, reference_batches

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def photographs() -> list[np.ndarray]:
    """Real RGB photographs, (H, W, 3) uint8."""
    return real_photographs()


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory, photographs: list[np.ndarray]) -> Path:
    """Parallel folders of 37 JPEG photographs of different sizes and PNG masks, in two classes."""
    return write_source(tmp_path_factory.mktemp("law-source"), photographs)


def real_photographs() -> list[np.ndarray]:
    """Return RGB photographs, (H, W, 3) uint8."""
    china, flower = sample_photographs()
    return [skimage.data.astronaut(), skimage.data.chelsea(), skimage.data.coffee(), china, flower]


def write_source(root: Path, photographs: list[np.ndarray]) -> Path:
    """Write the images and masks of `source` into a folder; return the folder."""
    rng = np.random.default_rng(7)
    for number in range(37):
        photo = photographs[number % len(photographs)]
        height, width = int(rng.integers(70, 160)), int(rng.integers(70, 160))
        top = int(rng.integers(0, photo.shape[0] - height))
        left = int(rng.integers(0, photo.shape[1] - width))
        crop = photo[top : top + height, left : left + width]
        kind = ("day", "night")[number % 2]
        for folder in ("images", "masks"):
            (root / folder / kind).mkdir(parents=True, exist_ok=True)
        Image.fromarray(crop).save(root / "images" / kind / f"{number:03}.jpg", quality=90)
        mask = (crop.astype(int).sum(2) // 192).astype(np.uint8)
        Image.fromarray(mask).save(root / "masks" / kind / f"{number:03}.png")
    return root


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    """The photographs, packed by the command line."""
    return pack_folder(source, tmp_path_factory.mktemp("law") / "photos")


@pytest.fixture(scope="session")
def boxed(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    """The same with 0 to 5 boxes and keypoints with fields, 0 to 6 words, and a weight."""
    images = sorted((source / "images").rglob("*.jpg"))
    masks = sorted((source / "masks").rglob("*.png"))
    rng = np.random.default_rng(8)
    rows = []
    for number, (image, mask) in enumerate(zip(images, masks, strict=True)):
        count = number * 7 % 6
        with Image.open(image) as picture:
            size = picture.size
        at = rng.uniform(0, 1, (count, 2, 2))
        corners = np.hstack([at.min(1), at.max(1)])
        boxes = {"label": rng.integers(0, 90, count), "score": rng.random(count)}
        rows.append(
            {
                "image": image.read_bytes(),
                "mask": mask.read_bytes(),
                "boxes": {"relative_xyxy": corners, **boxes},
                "keypoints": {"xy": at[:, 0] * size, "person": np.arange(count)},
                "words": np.arange(number % 7, dtype=np.int32) + number,
                "label": number % 2,
                "weight": np.float32(number / 64),
            }
        )
    dest = tmp_path_factory.mktemp("law") / "boxed"
    fields = [
        schema.image(),
        schema.mask(),
        schema.boxes(fields={"label": "int64", "score": "float32"}),
        schema.keypoints(fields={"person": "uint8"}),
        schema.array("words", "int32", (None,)),
        schema.label(),
        schema.scalar("weight", "float32"),
    ]
    write(dest, fields, rows)
    return dest


@pytest.fixture(scope="session")
def tars(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    """The photographs and masks in two tars, which are read in place."""
    root = tmp_path_factory.mktemp("law") / "tars"
    root.mkdir()
    images = sorted((source / "images").rglob("*.jpg"))
    for shard in range(2):
        with tarfile.open(root / f"{shard}.tar", "w") as file:
            for image in images[shard * 20 : shard * 20 + 20]:
                kind = image.parent.name
                mask = source / "masks" / kind / f"{image.stem}.png"
                file.add(image, f"{kind}-{image.stem}.jpg")
                file.add(mask, f"{kind}-{image.stem}.mask.png")
                label = tarfile.TarInfo(f"{kind}-{image.stem}.cls")
                label.size = 1
                file.addfile(label, io.BytesIO(b"%d" % (kind == "night")))
    return root


@pytest.fixture(scope="session")
def arrows(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    """The photographs and masks in an Arrow file of several batches, which is read in place."""
    picture = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = pa.schema([("image", picture), ("mask", picture), ("label", pa.int64())])
    rows = [
        {
            "image": {"bytes": image.read_bytes(), "path": None},
            "mask": {"bytes": mask.read_bytes(), "path": None},
            "label": int(image.parent.name == "night"),
        }
        for image, mask in zip(
            sorted((source / "images").rglob("*.jpg")),
            sorted((source / "masks").rglob("*.png")),
            strict=True,
        )
    ]
    root = tmp_path_factory.mktemp("law") / "arrows"
    root.mkdir()
    with (
        pa.OSFile(str(root / "data.arrow"), "wb") as file,
        pa.ipc.new_stream(file, columns) as out,
    ):
        for start in range(0, len(rows), 15):
            out.write_batch(pa.RecordBatch.from_pylist(rows[start : start + 15], schema=columns))
    return root


@pytest.fixture(scope="session")
def datasets(dataset: Path, boxed: Path, tars: Path, arrows: Path) -> Iterator[dict[str, Path]]:
    """All of them, by the names under which they are served."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE))  # where live sources lie
        live = Path("law_sources:Photographs")
        yield {"photos": dataset, "boxed": boxed, "tars": tars, "arrows": arrows, "live": live}


def encoded(pixels: np.ndarray, form: str) -> bytes:
    """Return a picture as the bytes of a file."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form)
    return file.getvalue()


def flags(
    folder: Path,
    datasets: dict[str, Path],
    workers: int,
    fail_points: str = "",
    more: str = "",
    *,
    chunk_rows: int = 0,
    at_once_bytes: int = 2**26,
    jpeg: str = "libjpeg",
) -> list[str]:
    """Write a configuration into a folder; return the flags of a daemon that reads it."""
    names = (
        "crops", "floats", "training", "padded", "evaluation", "scheduled", "detection", "mixed",
        "mosaics", "pasted", "fitted", "fitted_mixed", "fitted_forms", "halved", "halved_windows",
        "reduced", "sentences", "folded", "varying", "windows", "squares", "clips", "clip_centers",
        "blended", "blended_squares", "no_masks", "refusing", "ragged", "ragged_squares", "cropped",
        "cropped_flips", "clips_in_buckets",
    )  # fmt: skip
    config = [
        "[daemon]",
        f"python_path = [{json.dumps(str(HERE))}]",
        f"jpeg = {json.dumps(jpeg)}",
        "[testing]",
        f"fail_points = {json.dumps(fail_points)}",
        f"chunk_rows = {chunk_rows}",
        f"at_once_bytes = {at_once_bytes}",
        "[pipelines]",
        *(f'{name} = "law_pipelines:{name}"' for name in names),
        "[datasets]",
        *(f"{name} = {json.dumps(str(path))}" for name, path in datasets.items()),
        more,
    ]
    (folder / "stoker.toml").write_text("\n".join(config))
    return [f"--config={folder}/stoker.toml", f"--workers={workers}"]


def serving(
    folder: Path,
    datasets: dict[str, Path],
    workers: int,
    fail_points: str = "",
    more: str = "",
    jpeg: str = "libjpeg",
) -> AbstractContextManager[Daemon]:
    """Run a daemon whose files are all in a folder; `more` is further configuration."""
    return daemons.serving(folder, *flags(folder, datasets, workers, fail_points, more, jpeg=jpeg))


@pytest.fixture
def daemon(tmp_path: Path, dataset: Path) -> Callable[..., AbstractContextManager[Daemon]]:
    """A context manager: `daemon(workers, fail_points="")` runs a real daemon.

    `datasets` are served instead of the photographs; `more` is further configuration.
    """

    def run(
        workers: int,
        fail_points: str = "",
        datasets: dict[str, Path] | None = None,
        more: str = "",
    ) -> AbstractContextManager[Daemon]:
        number = len(list(tmp_path.glob("d*")))
        folder = tmp_path / f"d{number}"
        folder.mkdir(mode=0o700)
        return serving(folder, datasets or {"photos": dataset}, workers, fail_points, more)

    return run


def _arrays(batch: object) -> dict[str, np.ndarray]:
    """Outputs by name, copied, as the parts that a digest covers, which concatenate."""
    return {name: np.array(array) for name, array in digest_parts(batch).items()}


def merged(parts: list[list[tuple[int, int, dict[str, np.ndarray]]]]) -> list[str]:
    """Digests of the global batches whose rank cuts are the parts."""
    digests = []
    for cuts in zip(*parts, strict=True):
        places = {(epoch, step) for epoch, step, _ in cuts}
        assert len(places) == 1, f"ranks disagree on the step: {places}"
        arrays = {name: np.concatenate([cut[name] for _, _, cut in cuts]) for name in cuts[0][2]}
        digests.append(batch_digest(arrays, *places.pop()))
    return digests


def some(
    address: str, count: int, ranks: int, state: dict | None, **options: object
) -> tuple[list[str], dict]:
    """Digests of `count` batches from a cursor if given, and the cursor behind them."""
    parts, states = [], []
    for rank in range(ranks):
        given = {"device": "numpy", "rank": rank, "world_size": ranks, "prefetch": 2} | options
        with Loader(address, **grouped(**given)) as loader:
            if state is not None:
                loader.load_state_dict(state)
            every = itertools.chain.from_iterable(itertools.repeat(loader))
            taken = itertools.islice(every, count)
            parts.append([(batch.epoch, batch.step, _arrays(batch)) for batch in taken])
            states.append(loader.state_dict())
    assert all(state == states[0] for state in states), "a cursor holds no rank"
    return merged(parts), states[0]


@pytest.fixture(scope="session")
def law() -> SimpleNamespace:
    """Both sides of the law as digests: `reference(...)`, and `delivered(...)` or `some(...)`."""

    def reference(
        path: Path,
        graph: object,
        epochs: range,
        buckets: object = None,
        exclude: Sequence[int] = (),
        weights: object = None,
        crashed: Sequence[int] = (),
        integrity: str = "auto",
        **fields: object,
    ) -> list[str]:
        spec = make_spec(path, graph, buckets, exclude, weights, **fields)
        given = {
            "buckets": buckets, "exclude": exclude, "weights": weights, "crashed": crashed,
            "integrity": integrity,
        }  # fmt: skip
        return [
            batch_digest(arrays, epoch, step)
            for epoch in epochs
            for step, arrays in reference_batches(path, graph, spec, epoch=epoch, **given)
        ]

    def one_rank(
        address: str, epochs: range, state: dict | None = None, **options: object
    ) -> list[tuple[int, int, dict[str, np.ndarray]]]:
        """All batches of the epochs, from a cursor if given: (epoch, step, outputs).

        Without `prefetch`, few batches are made in vain; None is the daemon's choice.
        """
        found = []
        with Loader(address, **grouped(device="numpy", **{"prefetch": 2, **options})) as loader:
            if state is not None:
                loader.load_state_dict(state)
            else:
                loader.set_epoch(epochs.start)
            for _ in epochs:
                found += [(batch.epoch, batch.step, _arrays(batch)) for batch in loader]
        return found

    def delivered(address: str, epochs: range, ranks: int = 1, **options: object) -> list[str]:
        return merged(
            [
                one_rank(address, epochs, rank=rank, world_size=ranks, **options)
                for rank in range(ranks)
            ]
        )

    return SimpleNamespace(
        reference=reference, delivered=delivered, merged=merged, one_rank=one_rank, some=some
    )
