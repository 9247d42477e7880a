"""Which paths are hidden from sandboxed commands."""

import time
from pathlib import Path

import pytest

from outlast.core.errors import ConfigError
from outlast.runtime.sandbox import hidden_paths as subject
from outlast.runtime.sandbox.hidden_paths import hidden_paths, shown_paths
from tests.sandbox.sandboxed import Sandboxed, repository


@pytest.fixture
def user_home(tmp_path: Path) -> Path:
    home = (tmp_path / "user").resolve()
    home.mkdir()
    return home


def make(path: Path, text: str = "canary") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def hidden(home: Path, *extra: str, **environ: str) -> set[Path]:
    return set(hidden_paths(user_home=home, outlast_home=home / ".outlast", extra=extra, environ=environ))


def test_own_home_and_known_secrets_are_hidden_if_they_exist(user_home: Path) -> None:
    names = (".ssh/id_ed25519", ".aws/credentials", ".gnupg/x", ".netrc", ".pgpass", ".docker/config.json")
    names += (".config/gh/hosts.yml", ".mozilla/x", ".claude/x", ".bash_history", ".config/google-chrome-beta/x")
    for name in (".outlast/config.toml", *names):
        make(user_home / name)
    found = hidden(user_home)
    for name in (".outlast", ".ssh", ".aws", ".gnupg", ".netrc", ".pgpass", ".docker/config.json", ".config/gh"):
        assert user_home / name in found
    for name in (".mozilla", ".claude", ".bash_history", ".config/google-chrome-beta"):
        assert user_home / name in found
    assert user_home / ".kube" not in found
    assert user_home / ".docker" not in found


def test_variables_of_the_environment_move_hidden_folders(user_home: Path, tmp_path: Path) -> None:
    make(tmp_path / "etc" / "gh" / "hosts.yml")
    sockets = make(tmp_path / "runtime" / "bus").parent
    found = hidden(user_home, XDG_CONFIG_HOME=str(tmp_path / "etc"), XDG_RUNTIME_DIR=str(sockets))
    assert {(tmp_path / "etc" / "gh").resolve(), sockets.resolve()} <= found


def test_link_is_resolved_to_what_it_hides(user_home: Path, tmp_path: Path) -> None:
    target = make(tmp_path / "dotfiles" / "netrc")
    (user_home / ".netrc").symlink_to(target)
    assert target.resolve() in hidden(user_home)


def test_link_to_the_home_itself_does_not_hide_the_home(user_home: Path) -> None:
    (user_home / ".aws").symlink_to(user_home)
    assert user_home not in hidden(user_home)


@pytest.mark.parametrize(
    ("name", "text", "is_hidden"),
    [
        (".npmrc", "registry=https://npm.example/\n", False),
        (".npmrc", "//npm.example/:_authToken=abc\n", True),
        (".config/pip/pip.conf", "[global]\nindex-url = https://me:pw@pypi.example/simple\n", True),
        (".config/pip/pip.conf", "[global]\nindex-url = https://pypi.example/simple\n", False),
        (".m2/settings.xml", "<server><password>x</password></server>", True),
        (".npmrc", "#" * 70_000, True),
    ],
)
def test_settings_file_is_hidden_only_while_it_holds_a_token(
    user_home: Path, name: str, text: str, is_hidden: bool
) -> None:
    path = make(user_home / name, text)
    assert (path in hidden(user_home)) is is_hidden


def test_user_extends_the_list_by_setting_and_by_file(user_home: Path) -> None:
    plans, notes = make(user_home / "plans" / "secret.txt"), make(user_home / "notes" / "a.key")
    make(user_home / ".outlast" / "hidden-paths.txt", "# mine\n~/notes/*.key\n")
    assert {plans, notes} <= hidden(user_home, "~/plans/secret.txt")


def test_relative_pattern_of_the_user_is_refused_with_its_source(user_home: Path) -> None:
    make(user_home / ".outlast" / "hidden-paths.txt", "notes\n")
    with pytest.raises(ConfigError, match=r"'notes' in .*hidden-paths\.txt is no absolute path"):
        hidden(user_home)


def test_skills_of_the_outlast_home_stay_visible(user_home: Path) -> None:
    assert shown_paths(user_home / ".outlast") == ()
    skills = make(user_home / ".outlast" / "skills" / "a" / "SKILL.md").parent.parent
    assert shown_paths(user_home / ".outlast") == (skills,)


def test_every_pattern_of_the_data_file_is_absolute() -> None:
    patterns = subject._patterns()
    assert len(patterns) > 150
    assert subject._checked(patterns, "the data file") == list(patterns)


def test_list_is_made_within_three_milliseconds(user_home: Path) -> None:
    for number in range(300):
        make(user_home / f"file{number}")
    hidden(user_home)
    best = min(_seconds(user_home) for _ in range(20))
    assert best < 0.003


def _seconds(home: Path) -> float:
    start = time.thread_time()
    hidden(home)
    return time.thread_time() - start


def test_hidden_canaries_cannot_be_read_in_the_sandbox(user_home: Path, tmp_path: Path) -> None:
    base = tmp_path.resolve()
    root = repository(user_home / "work" / "project")
    names = (".ssh/id_ed25519", ".aws/credentials", ".netrc", ".docker/config.json", ".outlast/auth.json")
    for name in (*names, ".claude/.credentials.json", ".bash_history", ".npmrc"):
        make(user_home / name, "_authToken=CANARY")
    script = make(user_home / ".outlast" / "skills" / "one" / "run.sh", "VISIBLE")
    home = user_home / ".outlast"
    paths = hidden_paths(user_home=user_home, outlast_home=home, environ={})
    sandbox = Sandboxed(base, root)
    look = f"grep -rl CANARY {user_home}; cat {script}"
    assert len(sandbox.run(look, shown=[user_home]).stdout.splitlines()) == len(names) + 4
    attack = f"""
        cat {" ".join(str(user_home / name) for name in names)}; ls -A {user_home}/.ssh {user_home}/.outlast /run
        echo x > {home}/new; echo x > {script}; rm -rf {user_home}/.ssh; mv {user_home}/.ssh {root}; cat /etc/shadow
        """
    result = sandbox.run(f"{look}; {attack}", hidden=paths, shown=[user_home, *shown_paths(home)])
    assert "CANARY" not in result.stdout
    assert result.stdout.split() == ["VISIBLE/run:", f"{home}:", "skills", f"{user_home}/.ssh:"]
    assert script.read_text() == "VISIBLE"
    assert not (home / "new").exists()
    assert (user_home / ".ssh" / "id_ed25519").exists()
