"""The core's settings, from the configuration."""

from stoker.server.settings.config_types import Config
from stoker.server.state.settings import Settings


def settings(config: Config) -> Settings:
    """Return the core's settings from the configuration."""
    return Settings(
        workers=config.workers.count,
        memory_limit_bytes=int(config.memory.limit),
        datasets=config.datasets,
        pipelines=config.pipelines,
        claim_deadline_s=config.workers.claim_deadline_s,
        worker_start_s=config.workers.start_deadline_s,
        exit_with_last_client=config.daemon.exit_with_last_client,
        first_client_s=config.daemon.first_client_s,
        drain_s=config.daemon.grace_s,
        max_sessions=config.daemon.max_sessions,
        max_bad_fraction=config.bad_samples.max_fraction,
        crash_policy=config.bad_samples.crash_policy,
    )
