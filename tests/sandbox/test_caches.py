"""The caches of a project inside the sandbox."""

import os
from pathlib import Path

import pytest

from outlast.runtime.sandbox.caches import SLOTS, CacheArea, clear_cache, open_cache_area
from tests.sandbox.sandboxed import Sandboxed, repository, snapshot


@pytest.fixture
def user_home(tmp_path: Path) -> Path:
    home = (tmp_path / "user").resolve()
    for name in (".cache/pip/wheel", ".npm/_cacache/index", ".cargo/bin/tool"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text("downloaded before")
    return home


@pytest.fixture
def area(tmp_path: Path) -> CacheArea:
    found = open_cache_area(tmp_path / "outlast-home", "project")
    assert found is not None
    return found


def test_command_sees_own_caches_and_writes_into_the_area_only(
    user_home: Path, tmp_path: Path, area: CacheArea
) -> None:
    root = repository(tmp_path.resolve() / "project")
    plan = area.plan(user_home=user_home, environ={}, apart=[root])
    before = snapshot(user_home)
    sandbox = Sandboxed(tmp_path.resolve(), root)
    command = f"""
        set -e; cat {user_home}/.cache/pip/wheel; echo new > {user_home}/.cache/pip/new
        echo changed > {user_home}/.npm/_cacache/index; rm {user_home}/.cargo/bin/tool
        mkdir -p $GOMODCACHE/m; echo module > $GOMODCACHE/m/go.mod
        """
    hidden = [tmp_path.resolve() / "outlast-home"]
    first = sandbox.run(
        command, overlays=plan.layers, writable=plan.writable, environment=dict(plan.environment), hidden=hidden
    )
    assert first.returncode == 0, first.stderr
    assert first.stdout == "downloaded before"
    assert snapshot(user_home) == before
    again = sandbox.run(
        f"cat {user_home}/.cache/pip/new {user_home}/.npm/_cacache/index $GOMODCACHE/m/go.mod; "
        f"ls {user_home}/.cargo/bin; cat {hidden[0]}/sandbox/caches/project/0/lock",
        overlays=plan.layers, writable=plan.writable, environment=dict(plan.environment), hidden=hidden,
    )  # fmt: skip
    assert again.stdout == "new\nchanged\nmodule\n"
    assert "No such file" in again.stderr


def test_without_overlays_each_tool_is_redirected(user_home: Path, area: CacheArea) -> None:
    plan = area.plan(user_home=user_home, environ={}, overlays=False)
    assert plan.layers == ()
    assert plan.writable == (area.folder / "plain",)
    assert Path(plan.environment["PIP_CACHE_DIR"]) == area.folder / "plain" / "pip"
    assert plan.environment["MAVEN_ARGS"] == f"-Dmaven.repo.local={area.folder / 'plain' / 'maven'}"


def test_variable_that_npm_warns_of_is_set_only_where_pnpm_is_used(
    user_home: Path, tmp_path: Path, area: CacheArea
) -> None:
    root = (tmp_path / "project").resolve()
    root.mkdir()
    assert "npm_config_store_dir" not in area.plan(user_home=user_home, environ={}, apart=[root]).environment
    (root / "pnpm-lock.yaml").touch()
    assert "npm_config_store_dir" in area.plan(user_home=user_home, environ={}, apart=[root]).environment


def test_layer_follows_the_variable_of_the_user(tmp_path: Path, user_home: Path, area: CacheArea) -> None:
    moved = (tmp_path / "fast-disk").resolve()
    moved.mkdir()
    plan = area.plan(user_home=user_home, environ={"PIP_CACHE_DIR": str(moved)})
    assert moved in [lower for lower, _, _ in plan.layers]
    assert "PIP_CACHE_DIR" not in plan.environment


def test_cache_around_the_project_gets_no_layer(user_home: Path, area: CacheArea) -> None:
    plan = area.plan(user_home=user_home, environ={}, apart=[user_home / ".cache" / "work" / "project"])
    lowers = [lower for lower, _, _ in plan.layers]
    assert user_home / ".cache" not in lowers
    assert {user_home / ".cache" / "pip", user_home / ".npm"} <= set(lowers)


def test_two_sessions_get_different_slots_and_the_last_goes_without(tmp_path: Path) -> None:
    areas = [open_cache_area(tmp_path, "p") for _ in range(SLOTS + 1)]
    assert areas[-1] is None
    assert len({area.folder for area in areas if area is not None}) == SLOTS
    assert areas[0] is not None
    areas[0].release()
    assert open_cache_area(tmp_path, "p") is not None


def test_sweep_removes_least_recently_used_caches_first(area: CacheArea) -> None:
    for name, age in (("upper/npm", 300), ("upper/cache/pip", 100), ("upper/cache/uv", 200), ("plain/go", 50)):
        file = area.folder / name / "data"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"x" * 100_000)
        for path in (file, file.parent):
            os.utime(path, (1e9 - age, 1e9 - age))
    assert area.sweep(limit=250_000, now=lambda: 1e9) >= 200_000
    left = sorted(str(path.parent.relative_to(area.folder)) for path in area.folder.rglob("data"))
    assert left == ["plain/go", "upper/cache/pip"]
    assert area.sweep(limit=0, now=lambda: 1e9 + 60) == 0
    assert area.sweep(limit=0, now=lambda: 1e9 + 4000) > 0


def test_clear_removes_read_only_folders_but_no_slot_in_use(tmp_path: Path) -> None:
    first, second = open_cache_area(tmp_path, "one"), open_cache_area(tmp_path, "two")
    assert first is not None
    assert second is not None
    for area in (first, second):
        folder = area.folder / "plain" / "go" / "module"
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"x" * 10_000)
        folder.chmod(0o555)
    first.release()
    assert clear_cache(tmp_path, "two") == 0
    assert clear_cache(tmp_path) >= 10_000
    assert not (first.folder / "plain" / "go").exists()
    assert (second.folder / "plain" / "go").exists()
