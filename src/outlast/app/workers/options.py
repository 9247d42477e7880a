"""Worker options shared by `outlast worker` and the worker in a server: concurrency, lease length, places."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from outlast.app.models import model_for
from outlast.app.placement import Placement
from outlast.app.settings import Settings
from outlast.app.workers.metrics import Metrics
from outlast.app.workers.worker_pool import AT_ONCE, WorkerPool
from outlast.core.errors import ConfigError
from outlast.runtime.agent_config import AgentConfig
from outlast.store.log_store import LogStore
from outlast.store.port import LEASE_MS

LEAST_LEASE, MOST_LEASE = 1.0, 600.0


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """With `works` false this process runs no turns; other workers do. `places` are `LABEL=PATH` pairs."""

    works: bool = True
    concurrency: int = AT_ONCE
    lease_seconds: float = LEASE_MS / 1000
    places: Sequence[str] = ()

    def checked(self) -> WorkerOptions:
        """Return these options if they are valid; otherwise raise `ConfigError` before anything is opened."""
        if self.concurrency < 1:
            raise ConfigError("--concurrency must be at least 1")
        if not LEAST_LEASE <= self.lease_seconds <= MOST_LEASE:
            raise ConfigError(f"--lease-seconds must be from {LEAST_LEASE:g} to {MOST_LEASE:g}")
        Placement.parse(self.places)
        return self

    def pool(
        self, store: LogStore, settings: Settings, metrics: Metrics, config: AgentConfig | None = None
    ) -> WorkerPool:
        store.timed = metrics.committed
        return WorkerPool(
            store,
            settings,
            config,
            at_once=self.concurrency,
            lease_seconds=self.lease_seconds,
            places=Placement.parse(self.places),
            metrics=metrics,
            works=self.works,
        )


async def check_model(settings: Settings) -> str:
    """Return the name of the model used for sessions that name none. Raises `ConfigError` if the model is `none`."""
    model = model_for(settings)
    if model is None:
        raise ConfigError("a worker with the model 'none' would never answer; choose another one with --model")
    await model.close()
    return model.name
