"""Accelerate, Lightning and transformers take a Loader as it is: epochs, resume, precisions."""

import importlib
import itertools
import pickle
import shutil
import warnings

import numpy as np
import pytest
from daemons import serving
from loading import places

from stoker.client import Batch, Loader, as_dataloader
from stoker.client.batch_sampler import Steps
from stoker.client.loader_samples import SampleSequence
from stoker.dataset import schema, write
from stoker.protocol.errors import BuildError, ClosedError, UsageError
from stoker.protocol.spec import StreamSpec

torch = pytest.importorskip("torch")
ROWS, STEPS = 14, 4

PIPELINES = """
from stoker.pipeline import pipeline

@pipeline
def scheduled(sample, ctx):
    return {"label": sample.label, "progress": ctx.progress}

@pipeline
def keyed(sample):
    return {"label": sample.label, "keys": sample.label}
"""


@pytest.fixture(scope="module")
def load(session_folder):
    """load(**options) -> a Loader of 14 samples in 4 batches; all share one daemon."""
    folder = session_folder / "frameworks"
    folder.mkdir()
    (folder / "framework_pipelines.py").write_text(PIPELINES)
    names = ("cat", "dog", "fox")
    write(folder / "packed", [schema.label(classes=names)], [{"label": n % 3} for n in range(ROWS)])
    flags = [
        f"--dataset=animals={folder}/packed",
        "--pipeline=scheduled=framework_pipelines:scheduled",
        "--pipeline=keyed=framework_pipelines:keyed",
    ]
    with serving(folder, *flags, f"--python-path={folder}", "--workers=1") as daemon:

        def make(kind=Loader, **options):
            given = {"pipeline": "scheduled", "batch_size": 4, "total_epochs": 4} | options
            return kind(daemon.address, **given)

        yield make
    shutil.rmtree(folder)


def expected(loader, epoch):
    """The ids of an epoch's batches, by another loop over the same stream."""
    loader.set_epoch(epoch)
    return [batch.index.tolist() for batch in loader]


# ------------------------------------------------------------------ what tools read


def test_steps_left_out_are_not_delivered_and_are_counted(load):
    """What Accelerate does with the parts of a loader, without Accelerate."""
    with load(drop_last=False) as loader, load(drop_last=False) as other:
        list(loader)
        sampler, dataset = loader.batch_sampler, loader.dataset
        assert isinstance(sampler, Steps)
        assert (len(sampler), sampler.batch_size, loader.drop_last) == (STEPS, 4, False)
        rest = [
            loader.collate_fn([dataset[step] for step in steps])
            for number, steps in enumerate(sampler)
            if number >= 2
        ]
        assert places(rest) == [(1, 2), (1, 3)]
        assert [batch.index.tolist() for batch in rest] == expected(other, 1)[2:]
        cursor = loader.state_dict()
        assert (cursor["epoch"], cursor["step"], cursor["skipped"]) == (1, 4, 2)
        assert places(loader) == [(2, step) for step in range(STEPS)]


def test_a_loop_of_steps_begins_at_the_cursor(load):
    with load(drop_last=False) as loader:
        loader.set_epoch(3)
        loader.skip(3)
        ((step,),) = loader.batch_sampler
        assert places([loader.dataset[step]]) == [(3, 3)]
        with pytest.raises(ClosedError, match="step 0 of this loop was delivered or skipped"):
            loader.dataset[step]


def test_a_loop_of_steps_begins_at_the_epoch_that_is_set(load):
    """The calls of transformers' Trainer after `skip_first_batches` of a resumed epoch."""
    with load() as loader, load(Loader.for_evaluation) as evaluation:
        for made, places_then in ((loader, [(2, 1), (2, 2)]), (evaluation, [(0, 1), (0, 2)])):
            sampler = made.batch_sampler
            sampler.set_epoch(2)
            steps = list(itertools.chain(*sampler))[1:3]
            assert places(made.dataset[step] for step in steps) == places_then


def test_reading_valid_of_a_moved_batch_is_reading_it(load):
    """Frameworks move batches: `valid` of the result must not count as unread (a warning)."""
    with load(last="pad") as loader:
        for batch in loader:
            moved = batch.to("cpu")
            assert int(moved.valid.sum()) in (4, 2)


def test_the_names_of_classes(load):
    with load() as loader:
        assert loader.dataset.classes == ("cat", "dog", "fox")
        assert loader.dataset.class_to_idx == {"cat": 0, "dog": 1, "fox": 2}


def test_a_pipeline_at_the_daemon_cannot_use_the_names_of_a_batch(load):
    message = (
        r"framework_pipelines.py:\d+: keyed: the output name 'keys' is reserved, .*sample_keys"
    )
    with pytest.raises(BuildError, match=message):
        load(pipeline="keyed")


@pytest.mark.parametrize(
    ("known", "classes"),
    [
        ({"label": ["a", "b"], "mask": ["sky"]}, ("a", "b")),
        ({"mask": ["sky", "sea"]}, ("sky", "sea")),
        ({}, "no classes are known for a field 'label'; no field has names"),
        ({"mask": ["sky"], "boxes": ["car"]}, "use classes_of.field. with 'mask', 'boxes'"),
    ],
)
def test_the_field_whose_classes_are_meant(known, classes):
    spec = StreamSpec(
        dataset=f"content:{'0' * 32}", dataset_rows=3, pipeline="0" * 32, batch_size=1
    )
    samples = SampleSequence(spec, known, lambda _: None)
    if isinstance(classes, tuple):
        assert samples.classes == classes
        return
    with pytest.raises(UsageError, match=classes):
        _ = samples.classes
    for field, names in known.items():
        assert samples.classes_of(field) == tuple(names)


# ------------------------------------------------------------------ as_dataloader


def test_a_dataloader_of_a_loader_has_the_parts_that_tools_check(load):
    with load(drop_last=False, rank=1, world_size=2) as loader:
        view = as_dataloader(loader)
        assert isinstance(view, torch.utils.data.DataLoader)
        assert isinstance(view.sampler, torch.utils.data.distributed.DistributedSampler)
        assert (view.sampler.num_replicas, view.sampler.rank) == (2, 1)
        assert (view.batch_size, view.drop_last, view.num_workers) == (4, False, 0)
        assert (len(view), len(view.dataset), len(view.sampler)) == (2, ROWS, 8)
        assert view.dataset.classes == ("cat", "dog", "fox")
        assert view.spec == loader.spec
        assert {"batch_size", "dataset", "drop_last", "sampler"} <= vars(view).keys()


def test_loops_over_a_dataloader_are_those_of_the_loader(load):
    with load() as loader, load() as other:
        view = as_dataloader(loader)
        assert [batch.index.tolist() for batch in view] == expected(other, 0)
        view.sampler.set_epoch(3)
        batches = iter(view)
        assert places([next(batches)]) == [(3, 0)]
        cursor, wanted = view.state_dict(), expected(other, 3)
    with load() as loader:
        view = as_dataloader(loader)
        view.load_state_dict(cursor)
        assert [batch.index.tolist() for batch in view] == wanted[1:]
        view.close()
        with pytest.raises(ClosedError):
            next(iter(view))


def test_a_dataloader_for_evaluation_keeps_its_epoch(load):
    with load(Loader.for_evaluation) as loader:
        view = as_dataloader(loader)
        view.sampler.set_epoch(3)
        assert {batch.epoch for batch in view} == {0}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"worker_init_fn": print}, "no argument 'worker_init_fn'.*draws belong to samples"),
        ({"num_workers": 4}, "no argument 'num_workers', since the Loader decides: workers="),
        ({"sampler": None}, "no argument 'sampler', since the Loader decides: subset="),
        ({"timeuot": 1}, "no argument 'timeuot', since the Loader decides: make the Loader with"),
    ],
)
def test_arguments_of_a_dataloader_are_refused(load, given, message):
    with load() as loader, pytest.raises(UsageError, match=message):
        as_dataloader(loader, **given)


def test_what_a_dataloader_of_a_loader_cannot_do(load):
    with load() as loader:
        view = as_dataloader(loader)
        with pytest.raises(UsageError, match="no indices: the daemon decides the order"):
            iter(view.sampler)
        again = "expected a stoker.client.Loader, got SampleSequence. A tool that makes it again"
        with pytest.raises(UsageError, match=again):
            type(view)(view.dataset, batch_size=4)
        with pytest.raises(ValueError, match="sampler attribute should not be set"):
            view.sampler = None
        with pytest.raises(UsageError, match="cannot be pickled"):
            pickle.dumps(view)


# ------------------------------------------------------------------ Accelerate


@pytest.fixture(scope="module")
def accelerator():
    return pytest.importorskip("accelerate").Accelerator(cpu=True)


def test_accelerate_prepares_it_and_batches_are_on_its_device(load, accelerator):
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with load(device=accelerator.device) as loader:
        model, optimizer, prepared = accelerator.prepare(model, optimizer, loader)
        assert prepared is loader
        seen = []
        for _ in range(2):
            for batch in prepared:
                seen.append((batch.epoch, batch.step))
                assert batch.label.device == accelerator.device
                loss = model(batch.label.float()[:, None]).mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        assert seen == [(epoch, step) for epoch in (0, 1) for step in range(3)]


def test_accelerate_skips_first_batches(load, accelerator):
    with load(drop_last=False) as loader, load(drop_last=False) as other:
        loader.set_epoch(1)
        active = accelerator.skip_first_batches(loader, 2)
        assert len(active) == 2
        found = list(active)
        assert places(found) == [(1, 2), (1, 3)]
        assert [batch.index.tolist() for batch in found] == expected(other, 1)[2:]
        assert places(loader) == [(2, step) for step in range(STEPS)]


def test_accelerate_saves_and_loads_the_place_of_a_dataloader(load, tmp_path):
    accelerate = pytest.importorskip("accelerate")
    with load() as loader:
        accelerator = accelerate.Accelerator(cpu=True)
        view = accelerator.prepare(as_dataloader(loader))
        assert view.loader is loader
        batches = iter(view)
        next(batches)
        accelerator.save_state(tmp_path / "saved")
        rest = [batch.index.tolist() for batch in batches]
    with load() as loader:
        accelerator = accelerate.Accelerator(cpu=True)
        view = accelerator.prepare(as_dataloader(loader))
        accelerator.load_state(tmp_path / "saved")
        assert [batch.index.tolist() for batch in view] == rest


@pytest.fixture
def batches(load, accelerator):
    """Two batches of a loader, and accelerate.utils.operations."""
    with load(device=accelerator.device) as loader:
        return *list(loader)[:2], importlib.import_module("accelerate.utils.operations")


def test_accelerate_cuts_and_joins_every_entry(batches):
    first, second, operations = batches
    rows = len(first.index)
    assert operations.find_batch_size(first) == rows
    half = operations.slice_tensors(first, slice(0, 2))
    assert half.index.tolist() == first.index.tolist()[:2]
    joined = operations.concatenate([first, second])
    assert type(half) is type(joined) is Batch
    assert {name: len(joined[name]) for name in joined} == dict.fromkeys(first, 2 * rows)
    assert joined["index"].tolist() == [*first["index"].tolist(), *second["index"].tolist()]


def test_accelerate_gathers_pads_and_moves_batches(batches, accelerator):
    batch, _, operations = batches
    for rebuilt in (
        accelerator.gather(batch),
        accelerator.gather_for_metrics(batch),
        accelerator.pad_across_processes(batch),
        accelerator.reduce(batch),
        operations.convert_to_fp32(batch),
        operations.broadcast(batch),
    ):
        assert type(rebuilt) is Batch
        assert all(torch.equal(rebuilt[name], batch[name]) for name in batch)
    described = operations.get_data_structure(batch)
    assert described["index"].shape == batch.index.shape
    assert operations.initialize_tensors(described)["label"].dtype == torch.int64
    moved = operations.send_to_device(batch, "cpu")
    assert (moved.epoch, moved.step) == (batch.epoch, batch.step)


def test_accelerate_dispatches_the_batches_of_a_dataset(load):
    """One process reads, and cuts each batch for all: what `dispatch_batches` does."""
    data_loader = pytest.importorskip("accelerate.data_loader")

    class Steps(torch.utils.data.IterableDataset):
        def __init__(self, loader):
            self.loader = loader

        def __iter__(self):
            return iter(self.loader)

    with load() as loader, load() as other:
        dispatcher = data_loader.prepare_data_loader(
            torch.utils.data.DataLoader(Steps(loader), batch_size=None),
            torch.device("cpu"), num_processes=1, process_index=0, put_on_device=True,
            dispatch_batches=True,
        )  # fmt: skip
        found = list(dispatcher)
        assert [type(batch) for batch in found] == [Batch] * 3
        assert [batch.index.tolist() for batch in found] == expected(other, 0)


# ------------------------------------------------------------------ transformers


@pytest.fixture
def hugging(tmp_path):
    """hugging(train, evaluation, **arguments) -> a Trainer; its model notes rows and progress."""
    transformers = pytest.importorskip("transformers")

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 3)
            self.seen = []

        def forward(self, progress, label):
            self.seen.append((len(label), progress[0].item()))
            logits = self.layer(progress.float()[:, None])
            return {"loss": torch.nn.functional.cross_entropy(logits, label), "logits": logits}

    def make(train, evaluation=None, **arguments):
        class Trainer(transformers.Trainer):
            def get_train_dataloader(self):
                return train

            def get_eval_dataloader(self, eval_dataset=None):
                return evaluation

        given = transformers.TrainingArguments(
            str(tmp_path), num_train_epochs=2, report_to=[], use_cpu=True, save_steps=4,
            disable_tqdm=True, label_names=["label"], **arguments,
        )  # fmt: skip
        return Trainer(model=Model(), args=given)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="transformers|accelerate|torch")
        yield make


FORWARD = {"as_dict": ("progress", "label")}


def test_the_trainer_of_transformers_trains_and_evaluates(load, hugging):
    with load(**FORWARD) as train, load(Loader.for_evaluation, **FORWARD) as evaluation:
        trainer = hugging(train, evaluation, gradient_accumulation_steps=2, save_strategy="no")
        trainer.train()
        assert [rows for rows, _ in trainer.model.seen] == [4] * 6
        trainer.model.seen.clear()
        assert trainer.evaluate()["eval_loss"] > 0
    assert [rows for rows, _ in trainer.model.seen] == [4, 4, 4, 2]


def test_the_trainer_of_transformers_resumes_in_the_middle_of_an_epoch(load, hugging, tmp_path):
    with load(**FORWARD) as train:
        first = hugging(train)
        first.train()
    with load(**FORWARD) as train:
        second = hugging(train)
        second.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
        assert train.statistics().delivered == 2
    assert second.model.seen == first.model.seen[4:]
    assert [progress for _, progress in second.model.seen] == pytest.approx([4 / 12, 5 / 12])


# ------------------------------------------------------------------ Lightning


@pytest.fixture(scope="module")
def lightning():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("pytorch_lightning")


@pytest.fixture
def trains(lightning, tmp_path):
    """trains(module, epochs, *data, fit={}, **options) -> the Trainer, which has trained it."""

    def run(module, epochs, *data, fit=None, **options):
        trainer = lightning.Trainer(
            max_epochs=epochs, accelerator="cpu", logger=False, enable_progress_bar=False,
            enable_model_summary=False, num_sanity_val_steps=0, default_root_dir=tmp_path,
            enable_checkpointing=bool(options.get("callbacks")), **options,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="pytorch_lightning|torch")
            warnings.filterwarnings("ignore", message=".*LeafSpec.*")
            trainer.fit(module, *data, **(fit or {}))
        return trainer

    return run


@pytest.fixture
def fit(lightning, trains, tmp_path):
    """fit(loader, epochs, ...) -> [(epoch, step, progress)] that the training saw."""

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.seen, self.validated = [], 0

        def training_step(self, batch, _):
            progress = batch.progress.unique().tolist()
            self.seen.append((batch.epoch, batch.step, *progress))
            return self.layer(batch["label"].float()[:, None]).mean()

        def validation_step(self, batch, _):
            self.validated += int(batch.valid.sum())

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    def run(loader, epochs, *validation, callbacks=(), **more):
        module = Module()
        trainer = trains(module, epochs, loader, *validation, callbacks=list(callbacks), fit=more)
        module.saved = tmp_path / "last.ckpt"
        trainer.save_checkpoint(module.saved)
        return module

    return run


def seen_in(epochs):
    return [(epoch, step, epoch / 4 + step / 12) for epoch in epochs for step in range(3)]


def same(found, wanted):
    assert [place[:2] for place in found] == [place[:2] for place in wanted]
    np.testing.assert_allclose([place[2] for place in found], [place[2] for place in wanted])


def test_lightning_trains_from_epoch_0_and_evaluates_every_sample(load, fit):
    with load() as train, load(Loader.for_evaluation) as evaluation:
        module = fit(train, 2, evaluation)
    same(module.seen, seen_in((0, 1)))
    assert module.validated == 2 * ROWS


def test_lightning_trains_on_a_dataloader_and_resumes(load, fit):
    with load() as train:
        saved = fit(as_dataloader(train), 2).saved
    with load() as train:
        same(fit(as_dataloader(train), 3, ckpt_path=saved).seen, seen_in((2,)))


def test_lightning_predicts_on_a_loader_but_not_on_a_dataloader(load, lightning, tmp_path):
    """It makes a DataLoader again to keep track of indices."""

    class Module(lightning.LightningModule):
        def predict_step(self, batch, _):
            return batch.index.tolist()

    with load(Loader.for_evaluation) as loader, warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pytorch_lightning|torch")
        trainer = lightning.Trainer(
            accelerator="cpu", logger=False, enable_progress_bar=False, default_root_dir=tmp_path
        )
        found = trainer.predict(Module(), loader)
        assert list(itertools.chain(*found)) == list(range(ROWS))
        with pytest.raises(
            UsageError, match=r"makes it again from its parts .* give the tool the Loader"
        ):
            trainer.predict(Module(), as_dataloader(loader))


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("bf16-true", "bfloat16"), ("16-true", "float16"), ("64-true", "float64")],
)
def test_lightning_converts_the_floats_of_a_batch(load, lightning, trains, precision, dtype):
    """It rebuilds each batch, `type(batch)({name: converted, ...})`, without using `valid`."""

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.seen = []

        def training_step(self, batch, _):
            self.seen.append((type(batch), batch.progress.dtype, batch.label.dtype))
            return self.layer(batch["progress"][:, None]).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    train, module = load(last="pad"), Module()
    trains(module, 1, train, precision=precision)
    assert module.seen == [(Batch, getattr(torch, dtype), torch.int64)] * 4
    with pytest.warns(UserWarning, match="the loop did not read batch.valid"):
        train.close()


def test_lightning_resumes_at_the_next_epoch(load, fit):
    with load() as train:
        saved = fit(train, 2).saved
    with load() as train:
        module = fit(train, 4, ckpt_path=saved)
    same(module.seen, seen_in((2, 3)))


def test_lightning_resumes_in_the_middle_of_an_epoch(load, fit, lightning, tmp_path):
    each = lightning.callbacks.ModelCheckpoint(
        dirpath=tmp_path, filename="{step}", every_n_train_steps=1, save_top_k=-1
    )
    with load() as train:
        fit(train, 2, callbacks=[each])
    with load() as train:
        module = fit(train, 3, ckpt_path=tmp_path / "step=5.ckpt")
    same(module.seen, seen_in((1, 2))[2:])


def test_a_loader_for_evaluation_shows_the_same_draws_in_every_loop(load):
    """Lightning sets the epoch of each sampler that it finds."""
    with load(Loader.for_evaluation) as loader:
        assert loader.sampler is None
    with load() as loader:
        loader.sampler.set_epoch(3)
        assert [batch.epoch for batch in loader] == [3, 3, 3]
