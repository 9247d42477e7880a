"""Inside or not, by resolved components; and which names are never just files."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.runtime.permissions.decision import Verdict
from outlast.runtime.permissions.evaluate import decide
from outlast.runtime.permissions.paths import inside, reading_fault, resolve, writing_fault
from tests.unit.runtime.permissions.place import call, make_project, policy_of

PART = st.sampled_from(
    [
        "..",
        ".",
        "a",
        "proj",
        "proj-evil",
        "link_out",
        "linkdir",
        "link",
        "src",
        "",
        "a.txt",
        "link_file",
        "outside",
        "new",
    ]
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("paths"))


def test_a_sibling_with_the_same_beginning_is_outside(project: Path) -> None:
    assert inside(str(project / "x"), [project])
    assert not inside(f"{project}-evil/x", [project])
    assert writing_fault("../proj-evil/x", str(project), [project])


@given(st.lists(PART, max_size=8), st.booleans())
def test_no_spelling_leads_out_unnoticed(project: Path, parts: list[str], absolute: bool) -> None:
    raw = "/".join([str(project), *parts] if absolute else parts)
    if writing_fault(raw, str(project), [project]) is None:
        assert os.path.commonpath([os.path.realpath(project / raw), project]) == str(project)
    if reading_fault(raw, str(project), [project]) is None:
        assert os.path.commonpath([resolve(raw, str(project)), project]) == str(project)


@pytest.mark.parametrize(
    "name", ["src/new.py", "README.md", "docs/a/b.md", "id_rsa_test.pub", ".gitignore", "Makefile", "src/keys.py"]
)
def test_ordinary_files_are_ordinary(project: Path, name: str) -> None:
    assert writing_fault(name, str(project), [project]) is None
    assert reading_fault(name, str(project), [project]) is None


def test_a_second_root_is_a_root(project: Path, tmp_path: Path) -> None:
    assert writing_fault(str(tmp_path / "x"), str(project), [project]) is not None
    assert writing_fault(str(tmp_path / "x"), str(project), [project, tmp_path]) is None


def test_a_link_into_the_project_is_inside(project: Path) -> None:
    (project / "short").symlink_to(project / "src" / "main.py")
    assert writing_fault("short", str(project), [project]) is None


M12 = [
    ".github/workflows/ci.yml",
    ".github/actions/x/action.yml",
    ".gitlab-ci.yml",
    ".circleci/config.yml",
    ".travis.yml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    ".cargo/config.toml",
    "lefthook.yml",
    ".lefthook.yml",
    "x.code-workspace",
    ".nvim.lua",
    ".zed/settings.json",
    ".devcontainer.json",
    ".devcontainer/devcontainer.json",
    ".mise/config.toml",
    ".mise.local.toml",
    ".env",
    ".env.local",
    "sub/.env",
    ".gemini/settings.json",
    ".codex/config.toml",
    "opencode.json",
    "opencode.jsonc",
    ".opencode/x",
    ".windsurf/rules",
    ".windsurfrules",
    ".roo/mcp.json",
    ".kiro/settings/mcp.json",
    ".amazonq/mcp.json",
    ".continue/config.yaml",
    ".cursorrules",
    ".cursor/mcp.json",
    ".aider.conf.yml",
    ".clinerules/x.md",
    ".mcp.json",
    "AGENTS.md",
    "CLAUDE.md",
    "CLAUDE.local.md",
    "GEMINI.md",
    "sub/AGENTS.md",
    "sub/claude.md",
    ".agents/AGENTS.md",
    ".claude/settings.json",
    ".vscode/tasks.json",
    ".idea/x.xml",
    ".husky/pre-commit",
    ".githooks/pre-commit",
    ".pre-commit-config.yaml",
    ".gitattributes",
    ".mvn/extensions.xml",
    ".yarn/releases/x.cjs",
    ".bundle/config",
    ".lintstagedrc.json",
    ".gitpod.yml",
    "AGENTS.MD",
    ".GitHub/workflows/x.yml",
    "agents.md.",
]


@pytest.mark.parametrize("name", M12)
def test_m12_what_other_programs_and_agents_obey_is_asked_about(project: Path, name: str) -> None:
    assert "obey" in (writing_fault(name, str(project), [project]) or "")


@pytest.mark.parametrize("tool", ["write", "edit", "apply_patch"])
@pytest.mark.parametrize("name", [".github/workflows/ci.yml", "AGENTS.md", ".env", "opencode.json"])
def test_m12_the_file_tools_ask_about_what_others_obey(project: Path, tool: str, name: str) -> None:
    patch = f"*** Begin Patch\n*** Add File: {name}\n+x\n*** End Patch"
    arguments = {"patch": patch} if tool == "apply_patch" else {"file_path": name}
    assert decide(call(tool, **arguments), policy_of(project, prompting=True)).verdict is Verdict.ASK


@pytest.mark.parametrize("name", [".bare/config", "repo.git/hooks/pre-commit", "store/config", "store/hooks/x"])
def test_h5_a_git_directory_of_another_name_is_asked_about(project: Path, name: str) -> None:
    (project / "store" / "objects").mkdir(parents=True, exist_ok=True)
    (project / "store" / "refs").mkdir(exist_ok=True)
    (project / "store" / "HEAD").write_text("ref: refs/heads/main\n")
    assert writing_fault(name, str(project), [project]) is not None


L6 = [
    "terraform.tfstate",
    "prod.tfstate",
    "terraform.tfstate.backup",
    "prod.tfvars",
    "x.auto.tfvars",
    "AuthKey_1.p8",
    ".vault_pass",
    ".vault_pass.txt",
    "client_secret.json",
    "client_secret_1.apps.json",
    "id_ed25519_work",
    "id_rsa_github",
    "kubeconfig",
    "prod.kubeconfig",
    "wp-config.php",
    "config/master.key",
    ".s3cfg",
    ".boto",
    ".dockercfg",
    "service_account.json",
    "rclone.conf",
    "wg0.conf",
    "x.ovpn",
    "server.keytab",
]


@pytest.mark.parametrize("name", L6)
def test_l6_names_of_secrets_are_asked_about_before_they_are_read(project: Path, name: str) -> None:
    assert "secrets" in (reading_fault(name, str(project), [project]) or "")


@pytest.mark.parametrize(
    "name", ["id_ed25519_work.pub", "docs/secrets.md", "tfstate.py", "kube/config.py", "wg.conf.md"]
)
def test_l6_names_like_those_of_secrets_are_read(project: Path, name: str) -> None:
    assert reading_fault(name, str(project), [project]) is None
