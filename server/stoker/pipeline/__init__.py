"""Pipelines: what a user writes, the graph it becomes, and what runs it.

`pipeline` and `scope` author; `Graph` is the data that travels; `stoker.pipeline.plan.bind` fits
it to a dataset; `stoker.pipeline.executor` and `stoker.pipeline.interpreter` run it. Importing
this package never imports numba.
"""

from stoker.pipeline import outputs
from stoker.pipeline.augment import auto_augment, rand_augment, trivial_augment_wide
from stoker.pipeline.augmix import augmix
from stoker.pipeline.authoring import Pipeline, branching, pipeline
from stoker.pipeline.choices import one_of, random_apply, some_of
from stoker.pipeline.context import Context
from stoker.pipeline.engine import Engine, Row
from stoker.pipeline.graph import Graph
from stoker.pipeline.lists import pipelines, sync_seed
from stoker.pipeline.naming import scope, shared_views

__all__ = [
    "Context",
    "Engine",
    "Graph",
    "Pipeline",
    "Row",
    "augmix",
    "auto_augment",
    "branching",
    "one_of",
    "outputs",
    "pipeline",
    "pipelines",
    "rand_augment",
    "random_apply",
    "scope",
    "shared_views",
    "some_of",
    "sync_seed",
    "trivial_augment_wide",
]
