"""`serve`: place one daemon on each of several nodes of a Ray cluster.

Runs in the driver, or in any process that is connected to Ray. The placement group spreads the
daemons over different nodes and reserves a CPU for each of their workers; if a node is lost, Ray
moves its place to another node, as soon as one has room.
"""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import ray
from stoker.client.time_limits import seconds
from stoker.protocol.datasets import is_live
from stoker.protocol.errors import ConnectError, ResourceError, UsageError, from_record
from stoker.protocol.request.argument_checks import within
from stoker.protocol.request.stream_request import MAX_HOSTS
from stoker.ray.daemons import Daemons
from stoker.ray.key_files import ServeKeys, make_keys
from stoker.ray.node_actor import NodeActor, RunningDaemon, ServeSettings

DATASET: Final = "data"
"""Name of a dataset that is given by its path alone."""
_OURS: Final = {
    "--address": "each daemon has an address of its own",
    "--tcp": "give port=",
    "--insecure": "give insecure=True",
    "--key": "serve() makes keys",
    "--clients": "serve() makes keys",
    "--ready-fd": "serve() waits for the daemons",
    "--dataset": "give dataset=",
    "--pipeline": "give pipelines=",
    "--workers": "give workers=",
    "--exit-with-last-client": "close() ends the daemons",
    "--python-path": "daemons import from where their actors do; give runtime_env=",
}


def serve(  # noqa: PLR0913  (each is one decision of the user, all but two by keyword)
    dataset: str | os.PathLike[str] | Mapping[str, str | os.PathLike[str]],
    pipelines: Mapping[str, str] | None = None,
    *,
    hosts: int,
    workers: int = 4,
    port: int = 0,
    insecure: bool = False,
    flags: Sequence[str] = (),
    resources: Mapping[str, float] | None = None,
    runtime_env: Mapping[str, Any] | None = None,
    timeout_s: float = 120.0,
) -> Daemons:
    """Start one daemon on each of several nodes; returns when all of them serve.

    Args:
        dataset: path of a packed dataset, the same on each node, or name -> path of several.
        pipelines: name -> `"module:attribute"`; loaders may also send pipelines.
        hosts: number of daemons, each on another node.
        workers: worker processes of each daemon; Ray reserves as many CPUs.
        port: TCP port of each daemon (and the next one); 0 lets the system choose.
        insecure: listen without keys: everyone who reaches the port can read the datasets.
        flags: more flags of `stoker serve`, such as `"--memory-limit=8GiB"`.
        resources: what else Ray reserves on each node, such as `{"loader": 1}`.
        runtime_env: Ray's runtime environment of the daemons, such as `{"working_dir": "."}`.
        timeout_s: how long to wait for nodes with room, and then for the daemons.

    Returns:
        A directory for `Loader(daemons, ...)`, on any node; its `close()` ends the daemons. They
        also end with the job of the process that called this.

    Raises:
        UsageError: an argument is wrong, or Ray is not connected.
        ResourceError: too few nodes have room.
        ConnectError: a daemon did not start in time.
        StokerError: a daemon cannot serve, such as a dataset that a node does not have.
    """
    hosts = within("hosts", hosts, 1, MAX_HOSTS)
    workers = within("workers", workers, 1, 1024)
    plan = ServeSettings(
        flags=(*_named(dataset, pipelines), f"--workers={workers}", *_check_flags(flags)),
        port=within("port", port, 0, 65534),
        keys=None if insecure else _keys(),
        start_s=seconds("timeout_s", timeout_s) or 0.0,
    )
    if plan.start_s == 0:
        raise UsageError(f"timeout_s={timeout_s!r}: expected a positive number of seconds")
    if "CPU" in (resources or {}):
        raise UsageError("resources: Ray reserves a CPU for each worker; give workers=")
    bundle = {**(resources or {}), "CPU": float(workers)}
    if not ray.is_initialized():
        raise UsageError("stoker.ray.serve: Ray is not connected; call ray.init(...) first")
    group = _reserve(bundle, hosts, plan.start_s)
    daemons = Daemons([], plan.keys, group)
    try:
        actor = ray.remote(NodeActor)
        actors = [_place(actor, plan, bundle, group, n, runtime_env) for n in range(hosts)]
        daemons = Daemons(actors, plan.keys, group)
        _await(actors, plan.start_s)
        daemons.addresses()
    except BaseException:
        daemons.close()
        ray.util.remove_placement_group(group)
        raise
    return daemons


def _named(dataset: object, pipelines: object) -> list[str]:
    """Return the flags that name datasets and pipelines.

    Raises:
        UsageError: they are not what `serve` expects.
    """
    if isinstance(dataset, str | os.PathLike):
        dataset = {DATASET: dataset}
    if not isinstance(dataset, Mapping) or not dataset:
        raise UsageError(
            f'dataset={dataset!r}: expected a path, or names and paths, such as {{"photos":'
            ' "/data/photos"}'
        )
    flags = []
    for name, path in dataset.items():
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise UsageError(f"dataset[{name!r}]={path!r}: expected a path")
        text = str(os.fspath(path))
        flags.append(f"--dataset={name}={text if is_live(text) else os.path.abspath(text)}")
    if not isinstance(pipelines, Mapping | None):
        raise UsageError(
            f'pipelines={pipelines!r}: expected names and places, such as {{"train":'
            ' "my_pipelines:train"}'
        )
    for name, target in (pipelines or {}).items():
        if not isinstance(target, str):
            raise UsageError(
                f"pipelines[{name!r}]={target!r}: expected text such as 'my_pipelines:train'; a"
                " pipeline object is given to the Loader, which sends it: Loader(daemons,"
                " pipeline=...)"
            )
        flags.append(f"--pipeline={name}={target}")
    return flags


def _check_flags(flags: Sequence[str]) -> list[str]:
    if isinstance(flags, str) or not all(isinstance(flag, str) for flag in flags):
        raise UsageError(f'flags={flags!r}: expected a list of text, such as ["--log-level=debug"]')
    for flag in flags:
        name = flag.partition("=")[0]
        if name in _OURS:
            raise UsageError(f"flags: {flag} cannot be chosen: {_OURS[name]}")
    return list(flags)


def _keys() -> ServeKeys:
    try:
        import cryptography  # noqa: F401, PLC0415 - daemons and loaders make certificates
    except ImportError:
        raise UsageError(
            "keys need the package `cryptography`: pip install 'stoker[ray]' on all nodes; or give"
            " insecure=True if you trust everyone who reaches the ports"
        ) from None
    return make_keys()


def _reserve(bundle: Mapping[str, float], hosts: int, timeout_s: float) -> Any:
    """Return a placement group of one bundle on each of several nodes.

    Raises:
        ResourceError: it was not placed in time.
    """
    group = ray.util.placement_group([dict(bundle)] * hosts, strategy="STRICT_SPREAD")
    if group.wait(timeout_s):
        return group
    ray.util.remove_placement_group(group)
    nodes = [node for node in ray.nodes() if node["Alive"]]
    listed = [
        f"{node['NodeManagerAddress']} has "
        + ", ".join(f"{node['Resources'].get(name, 0):g} {name}" for name in bundle)
        for node in nodes
    ]
    needed = ", ".join(f"{amount:g} {name}" for name, amount in bundle.items())
    raise ResourceError(
        f"expected {hosts} nodes with {needed} free on each, and waited {timeout_s:g} s; of"
        f" {len(nodes)} nodes {'; '.join(listed)} in all. Give fewer hosts= or workers=, add nodes,"
        " or end what uses them"
    )


def _place(
    actor: Any,
    plan: ServeSettings,
    bundle: Mapping[str, float],
    group: Any,
    number: int,
    runtime_env: Mapping[str, Any] | None,
) -> Any:
    """Start the actor of a bundle; returns its handle at once."""
    strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
        group, placement_group_bundle_index=number
    )
    options: dict[str, Any] = {} if runtime_env is None else {"runtime_env": dict(runtime_env)}
    others = {name: amount for name, amount in bundle.items() if name != "CPU"}
    return actor.options(
        num_cpus=bundle["CPU"],
        resources=others,
        scheduling_strategy=strategy,
        max_restarts=-1,
        **options,
    ).remote(plan)


def _await(actors: Sequence[Any], timeout_s: float) -> None:
    """Wait until every daemon listens.

    Raises:
        ConnectError: one does not in time.
        StokerError: one cannot.
    """
    deadline = time.monotonic() + timeout_s + 1.0
    for number, answer in enumerate([actor.where.remote() for actor in actors]):
        try:
            place: RunningDaemon = ray.get(answer, timeout=max(deadline - time.monotonic(), 0.1))
        except ray.exceptions.GetTimeoutError:
            raise ConnectError(
                f"daemon {number} of {len(actors)} was not ready in {timeout_s:g} s; give more"
                " timeout_s=, or see the logs of its actor in Ray (class NodeActor)"
            ) from None
        except ray.exceptions.RayError as error:
            raise ConnectError(
                f"the actor of daemon {number} of {len(actors)} failed; every node needs Stoker"
                f" (pip install 'stoker[ray,server]'): {error}"
            ) from error
        if place.error is not None:
            code, message, details = place.error
            raise from_record(code, f"the daemon on node {place.ip}: {message}", details)
