"""Names of classes in conditions: `sample.label == "cat"` is a number once the dataset is known."""

import numpy as np
import pytest

from stoker import ops
from stoker.dataset import schema, write
from stoker.pipeline import pipeline
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.normal import pipeline_id
from stoker.protocol.errors import BuildError
from stoker.server.rows.reference import make_spec, reference_batches

PIXELS = np.arange(8 * 9 * 3, dtype=np.uint8).reshape(8, 9, 3)
NAMES = ["bird", "cat", "dog"]


@pipeline
def train(sample):
    image = sample.image
    if sample.label == "cat":
        image = ops.invert(image, p=1.0)
    elif sample.label != "dog":
        image = ops.horizontal_flip(image, p=1.0)
    return {"image": image, "pet": sample.label in ("dog", "cat")}


WANTED = {"bird": (PIXELS[:, ::-1], False), "cat": (255 - PIXELS, True), "dog": (PIXELS, True)}


def only(name):
    return pipeline(lambda sample: {"x": sample.label == name})


def stored(path, names):
    fields = [schema.image(encoding="raw"), schema.label(classes=tuple(names))]
    write(path, fields, [{"image": PIXELS, "label": n} for n in range(len(names))])
    return path


@pytest.mark.parametrize("names", [NAMES, NAMES[::-1]])
def test_names_are_those_of_the_dataset(tmp_path, names):
    path = stored(tmp_path / "d", names)
    spec = make_spec(path, train.graph(), batch_size=3)
    ((_, batch),) = reference_batches(path, train.graph(), spec)
    for row, index in enumerate(batch["index"]):
        image, pet = WANTED[names[index]]
        assert np.array_equal(batch["image"][row], image)
        assert batch["pet"][row] == pet


@pytest.mark.parametrize("compiled", [False, True])
def test_in_process_the_names_are_given(compiled):
    for names in (NAMES, NAMES[::-1]):
        for number, name in enumerate(names):
            fields = {"image": PIXELS, "label": number}
            row = train(fields, classes={"label": names}, compiled=compiled)
            assert np.array_equal(row["image"], WANTED[name][0])
            (again,) = train.batch([fields], classes={"label": names}, compiled=compiled)
            assert again["pet"] == WANTED[name][1]


def test_an_unknown_name_is_an_error_with_the_nearest(tmp_path):
    path = stored(tmp_path / "d", NAMES)
    wrong = only("dgo")
    with pytest.raises(BuildError, match=r"py:\d+: label == 'dgo': there is no such class; "
                       r"did you mean 'dog'\? The classes of 'label' are bird, cat"):  # fmt: skip
        list(reference_batches(path, wrong.graph(), make_spec(path, wrong.graph(), batch_size=3)))


def test_a_name_travels_and_counts_in_the_pipeline_id():
    graph = train.graph()
    assert pipeline_id(Graph.from_data(graph.to_data())) == train.pipeline_id
    assert only("cat").pipeline_id != only("dog").pipeline_id
    assert {"node": "class", "field": "label", "name": "cat"} in only("cat").graph().to_data()[
        "nodes"
    ]
