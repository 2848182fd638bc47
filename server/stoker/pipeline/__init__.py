"""Pipelines: what a user writes, the graph it becomes, and what runs it.

`pipeline` and `scope` author; `Graph` is the data that travels; `bind` (in `planning.planner`) fits
it to a dataset; `compiled.executor` and `plain.interpreter` run it. Users, the server and `compat`
import it. It must not know datasets, orders or the server. Importing it never imports numba.
"""

from stoker.pipeline.authoring import outputs
from stoker.pipeline.authoring.lists import pipelines, sync_seed
from stoker.pipeline.authoring.pipeline import Pipeline, branching, pipeline
from stoker.pipeline.authoring.random_choices import one_of, random_apply, some_of
from stoker.pipeline.authoring.row_context import Context
from stoker.pipeline.authoring.sample_frames import sample_frames
from stoker.pipeline.compiled.guarded import Guarded
from stoker.pipeline.engine.interface import Engine
from stoker.pipeline.graph.graph import Graph
from stoker.pipeline.graph.normal import pipeline_id
from stoker.pipeline.plain.decisions import decide
from stoker.pipeline.plain.replay_row import replay
from stoker.pipeline.planning.planner import bind
from stoker.pipeline.policies.augment import auto_augment, rand_augment, trivial_augment_wide
from stoker.pipeline.policies.augmix import augmix
from stoker.pipeline.showing.explain_plan import explain
from stoker.pipeline.tracing.naming import scope, shared_views
from stoker.rng.row import Row

__all__ = [
    "Context",
    "Engine",
    "Graph",
    "Guarded",
    "Pipeline",
    "Row",
    "augmix",
    "auto_augment",
    "bind",
    "branching",
    "decide",
    "explain",
    "one_of",
    "outputs",
    "pipeline",
    "pipeline_id",
    "pipelines",
    "rand_augment",
    "random_apply",
    "replay",
    "sample_frames",
    "scope",
    "shared_views",
    "some_of",
    "sync_seed",
    "trivial_augment_wide",
]
