"""The core's settings, from the configuration."""

import resource

from stoker.server.daemon.descriptor_limits import session_limit
from stoker.server.settings import logs
from stoker.server.settings.config_types import Config
from stoker.server.state.settings import Settings


def settings(config: Config) -> Settings:
    """Return the core's settings from the configuration and this process's descriptor limit.

    Raises:
        ResourceError: the limit on open files does not allow a session.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    possible = session_limit(limit, config.workers.count)
    limited_by = "daemon.max_sessions"
    if possible < config.daemon.max_sessions:
        limited_by = f"the limit on open files ({limit}: ulimit -n, LimitNOFILE)"
        logs.log("warning", "sessions_limited", sessions=possible, descriptors=limit)
    return Settings(
        workers=config.workers.count,
        memory_limit_bytes=int(config.memory.limit),
        datasets=config.datasets,
        pipelines=config.pipelines,
        claim_deadline_s=config.workers.claim_deadline_s,
        worker_start_s=config.workers.start_deadline_s,
        start_deadline_s=config.workers.start_deadline_s,
        build_deadline_s=config.workers.build_deadline_s,
        exit_with_last_client=config.daemon.exit_with_last_client,
        first_client_s=config.daemon.first_client_s,
        drain_s=config.daemon.grace_s,
        max_sessions=min(possible, config.daemon.max_sessions),
        sessions_limited_by=limited_by,
        max_bad_fraction=config.bad_samples.max_fraction,
        crash_policy=config.bad_samples.crash_policy,
        session_limit_bytes=int(config.memory.session_limit),
        integrity=config.daemon.integrity,
        jpeg=config.daemon.jpeg,
        at_once_bytes=config.testing.at_once_bytes,
        chunk_rows=config.testing.chunk_rows,
    )
