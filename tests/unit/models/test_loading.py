"""The provider's SDK is loaded before the log says that the model was asked."""

from __future__ import annotations

from pathlib import Path

from outlast import open_store
from outlast.models.port import Abilities, LoadedModel
from outlast.models.providers import ProviderModel
from outlast.testing import ScriptedBackend
from tests.support.agents import agent_with, kinds_of


class SlowToLoad(ScriptedBackend):
    def __init__(self) -> None:
        super().__init__(completions=["Loaded."], abilities=Abilities(context_window=200_000, summarises=False))
        self.look = lambda: [""]
        self.recorded_at_load: list[str] = []

    async def load(self) -> None:
        self.recorded_at_load = self.look()


async def test_a_model_is_loaded_before_its_request_is_recorded(tmp_path: Path) -> None:
    model = SlowToLoad()
    assert isinstance(model, LoadedModel)
    with open_store(f"sqlite:///{tmp_path / 'x.db'}") as store:
        agent = agent_with(store, tmp_path / "p", backend=model)
        model.look = lambda: kinds_of(agent)
        assert await agent.run("Hello.") == "Loaded."
    assert "TurnStarted" in model.recorded_at_load
    assert "ModelRequested" not in model.recorded_at_load


async def test_a_provider_loads_its_sdk_once() -> None:
    model = ProviderModel("openai:gpt-4o", key="k", url="http://127.0.0.1:9/v1")
    assert isinstance(model, LoadedModel)
    await model.load()
    [loaded] = model._open.values()
    await model.load()
    assert list(model._open.values()) == [loaded]
    await model.close()
