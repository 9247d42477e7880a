"""A rule file is exactly what it should be, or the agent does not start, with one sentence that says why."""

import os
import stat
from pathlib import Path

import pytest

from outlast.core.errors import ConfigError
from outlast.runtime.permissions.consent import Consents
from outlast.runtime.permissions.rule_files import grants_file, load_rules, save_grant
from outlast.runtime.permissions.rules import PermissionRule, parse_flag, read_rules


def refused(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "permission-rules.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_rules(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_rules_of_all_kinds_are_read(tmp_path: Path) -> None:
    path = tmp_path / "permission-rules.json"
    path.write_text(
        '{"allow": [{"tool": "bash", "command": "git push *"}], "deny": [{"contains": "x"}, {"path_contains": "y"}],'
        ' "ask": []}'
    )
    rules = read_rules(path)
    assert rules.counts() == {"allow": 1, "deny": 2, "ask": 0}
    assert rules.allow[0].command == ("git", "push")
    assert rules.source == str(path)


def test_no_file_means_no_rules(tmp_path: Path) -> None:
    assert read_rules(tmp_path / "none.json").counts() == {"allow": 0, "deny": 0, "ask": 0}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not valid JSON"),
        (b"[]", "one JSON object"),
        (b"{", "not valid JSON"),
        (b'{"allow": [], "allow": []}', "twice"),
        (b'{"deny": [{"tool": "a", "tool": "b"}]}', "twice"),
        (b'{"permit": []}', "unknown key 'permit'"),
        (b'{"allow": {}}', "must be a list"),
        (b'{"allow": ["bash"]}', "allow rule 1 must be an object"),
        (b'{"deny": [{"tool": "a"}, {}]}', "deny rule 2 must be an object"),
        (b'{"deny": [{"tols": "a"}]}', "deny rule 1 has the unknown key 'tols'"),
        (b'{"ask": [{"tool": 1}]}', "ask rule 1: tool must be text"),
        (b'{"ask": [{"contains": " "}]}', "must be text that is not empty"),
        (b'{"allow": [{"tool": "read", "command": "ls"}]}', "only goes with the tool bash"),
        (b'{"allow": [{"command": "ls; rm"}]}', "first words of one simple command"),
        (b'{"allow": [{"command": "ls \'"}]}', "cannot be split"),
        (b'{"allow": [{"command": "*"}]}', "names no program"),
        (b'{"allow": [{"command": "git * push"}]}', "first words"),
        (b'{"allow": [{"contains": NaN}]}', "not a number of JSON"),
        (b'{"allow": [{"contains": "\xff"}]}', "not UTF-8"),
        (b'{"allow": ' + b"[" * 100_000, "nested too deeply"),
        (b"{" + b" " * (1 << 20) + b"}", "larger than"),
    ],
)
def test_a_malformed_file_is_refused_in_one_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    assert said in refused(tmp_path, content)


def test_a_folder_or_a_pipe_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(ConfigError, match=name):
            read_rules(tmp_path / name)


@pytest.mark.parametrize(
    ("flag", "rule"),
    [
        ("bash", PermissionRule(tool="bash", origin="--allow")),
        ("bash(git push *)", PermissionRule(tool="bash", command=("git", "push"), origin="--allow")),
        ("bash(pytest)", PermissionRule(tool="bash", command=("pytest",), origin="--allow")),
        ("write(docs/)", PermissionRule(tool="write", path_contains="docs/", origin="--allow")),
        ("write(docs/**)", PermissionRule(tool="write", path_contains="docs/", origin="--allow")),
        ("web_fetch", PermissionRule(tool="web_fetch", origin="--allow")),
    ],
)
def test_flags_are_rules(flag: str, rule: PermissionRule) -> None:
    assert parse_flag(flag) == rule


@pytest.mark.parametrize(
    "flag",
    ["", "(x)", "bash(", "bash()", "bash(*)", "bash(ls; rm)", "bash(a*b)", "web_fetch(x)", "write(*)", "bash(x) y"],
)
def test_flags_that_are_no_rules_are_refused_by_name(flag: str) -> None:
    with pytest.raises(ConfigError, match="--allow"):
        parse_flag(flag)


def of_project(project: Path, text: str) -> Path:
    path = project / ".outlast" / "permission-rules.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


THEIRS = '{"allow": [{"tool": "bash"}], "deny": [{"contains": "x"}], "ask": [{"contains": "y"}]}'


def test_a_projects_allow_rules_count_only_after_consent_to_these_bytes(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "proj"
    project.mkdir()
    path = of_project(project, THEIRS)
    loaded = load_rules(home=home, project=project, project_key="k1")
    assert loaded.rules.counts() == {"allow": 0, "deny": 1, "ask": 1}
    assert loaded.pending is not None
    Consents(home).give(path, loaded.pending.digest)
    assert load_rules(home=home, project=project, project_key="k1").rules.counts()["allow"] == 1
    path.write_text(THEIRS + " ")
    changed = load_rules(home=home, project=project, project_key="k1")
    assert changed.rules.counts()["allow"] == 0
    assert changed.pending is not None


def test_consent_does_not_go_to_another_project_and_can_be_withdrawn(tmp_path: Path) -> None:
    consents = Consents(tmp_path / "home")
    consents.give(tmp_path / "a", "d1")
    assert consents.covers(tmp_path / "a", "d1")
    assert not consents.covers(tmp_path / "b", "d1")
    consents.withdraw(tmp_path / "a")
    assert not consents.covers(tmp_path / "a", "d1")


def test_damaged_consents_are_told_and_not_taken_for_none(tmp_path: Path) -> None:
    (tmp_path / "consents.json").write_text("{")
    with pytest.raises(ConfigError, match=r"consents\.json"):
        Consents(tmp_path).covers(tmp_path / "a", "d1")


def test_what_was_answered_with_always_is_a_rule_of_the_user(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "proj"
    project.mkdir()
    os.umask(0)
    try:
        for _ in range(2):
            save_grant(home, "k1", PermissionRule(tool="bash", command=("git", "push")))
    finally:
        os.umask(0o022)
    assert load_rules(home=home, project=project, project_key="k1").rules.counts()["allow"] == 1
    assert load_rules(home=home, project=project, project_key="k2").rules.counts()["allow"] == 0
    path = grants_file(home, "k1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parent.parent, home)} == {0o700}


def test_a_damaged_file_of_grants_is_told_and_kept(tmp_path: Path) -> None:
    path = grants_file(tmp_path, "k1")
    path.parent.mkdir(parents=True)
    path.write_text("{]")
    with pytest.raises(ConfigError):
        save_grant(tmp_path, "k1", PermissionRule(tool="bash"))
    assert path.read_text() == "{]"


def test_a_project_key_is_never_a_path() -> None:
    with pytest.raises(ConfigError):
        grants_file(Path("h"), "../x")


def test_the_home_folder_as_project_keeps_its_own_file(tmp_path: Path) -> None:
    of_project(tmp_path, THEIRS)
    loaded = load_rules(home=tmp_path / ".outlast", project=tmp_path, project_key="k1")
    assert loaded.rules.counts() == {"allow": 1, "deny": 1, "ask": 1}
    assert loaded.pending is None
