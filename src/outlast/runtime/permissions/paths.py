"""Classifies paths for the policy: inside the roots or not, and whether reading or writing one needs a question.

Paths are resolved first (links followed, `..` removed) and then compared component by component. The answer holds at
the moment of the check; the code that later opens the file must make sure that nothing was swapped in between.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Sequence
from fnmatch import translate
from pathlib import Path

_READABLE = tuple(
    Path(p) for p in ("/usr/include", "/usr/lib", "/usr/share/doc", "/usr/share/man", "/usr/local/include")
)
_READABLE_FILES = frozenset({"/dev/null", "/etc/os-release", "/usr/lib/os-release", "/proc/cpuinfo", "/proc/meminfo"})


class _Names:
    """A set of names and name patterns that matches however a name is spelled (case, Unicode, trailing dots)."""

    def __init__(self, text: str, but: str = "") -> None:
        names = [_folded(name) for name in text.split()]
        self.exact = frozenset(name for name in names if "*" not in name)
        self._patterns = _one_pattern(name for name in names if "*" in name)
        self._but = _one_pattern(but.split())

    def __contains__(self, name: str) -> bool:
        plain = _folded(name)
        if self._but.match(plain):
            return False
        return plain in self.exact or self._patterns.match(plain) is not None


def _one_pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Return one expression for all names; it matches nothing if there are none."""
    return re.compile("|".join(map(translate, names)) or r"(?!)")


def _folded(name: str) -> str:
    """Return a name as the most lenient file system sees it: no case, no invisible characters, no trailing dots."""
    if name.isascii():
        return name.lower().rstrip(". ") or name
    shown = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    return shown.casefold().rstrip(". ") or shown


_SECRET = _Names(
    ".ssh .gnupg .aws .azure .kube .docker .gcloud .netrc _netrc .pgpass .my.cnf .npmrc .pypirc .git-credentials "
    ".env .env.* *.env .envrc id_rsa id_dsa id_ecdsa id_ed25519 credentials .credentials credentials.json "
    "*credentials.json .htpasswd .secrets secrets.y*ml secrets.json secrets.toml secrets.env secrets.txt *.secret "
    ".vault-token .terraformrc *.pem *.key *.p12 *.pfx *.kdbx *.jks *.keystore *.ppk .*_history auth.json token.json "
    "service-account*.json service_account*.json *.tfstate *.tfstate.* *.tfvars *.tfvars.json *.p8 *.gpg *.age "
    ".vault_pass* .vault-pass* vault_pass.txt .vault_password* client_secret*.json client-secret*.json id_rsa_* "
    "id_dsa_* id_ecdsa_* id_ed25519_* id_ecdsa_sk id_ed25519_sk kubeconfig kubeconfig.* *.kubeconfig "
    "wp-config.php .htdigest .s3cfg .boto .dockercfg master.key credentials.y*ml.enc "
    "pgpass.conf .mylogin.cnf "
    ".rclone.conf rclone.conf wg*.conf *.ovpn *.agekey "
    "application_default_credentials.json firebase-adminsdk*.json *-firebase-adminsdk-*.json "
    ".env-* .env_* *.keytab *.jceks *.bks",
    but=".env.example .env.sample .env.template .env.dist .env-example .env_example .env.test.example "
    "example.tfvars terraform.tfvars.example *.pub",
)

_OBEYED = _Names(
    ".git .hg .svn .bzr .outlast .envrc .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc "
    ".zshenv .zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc .login .logout .inputrc .gitconfig .gitmodules .npmrc "
    ".yarnrc .yarnrc.yml .pnpmfile.cjs .pypirc .netrc .ssh .gnupg .vscode .idea .husky .devcontainer .direnv "
    ".pre-commit-config.yaml .vimrc .exrc .nvimrc .gvimrc .emacs .emacs.d .dir-locals.el .gdbinit .lldbinit .pythonrc "
    ".pythonrc.py pyvenv.cfg sitecustomize.py usercustomize.py *.pth .venv venv .bin .mcp.json .claude .cursor "
    ".config .local .mise.toml mise.toml .tool-versions .curlrc .wgetrc .screenrc .tmux.conf .xprofile .xinitrc "
    ".xsession .forward .rhosts .shosts .lesskey .lessfilter .ackrc .ripgreprc .irbrc .rdebugrc .perldb .rprofile "
    ".psqlrc .sqliterc .mailcap .mailrc .pam_environment autostart .aws .kube .docker authorized_keys .env .env.* "
    # git directories beside `.git`
    ".bare *.git .gitattributes "
    # continuous integration and deployment
    ".github .gitlab .gitlab-ci.yml .gitlab-ci.yaml *.gitlab-ci.yml .circleci .travis.yml appveyor.yml .appveyor.yml "
    "azure-pipelines.yml azure-pipelines*.yml .azure-pipelines bitbucket-pipelines.yml jenkinsfile jenkinsfile.* "
    ".drone.yml .woodpecker .woodpecker.yml .buildkite .cirrus.yml .teamcity .gitea .forgejo "
    # hooks of git, and tools that run when a folder is entered or a project is opened
    "lefthook.yml lefthook.yaml .lefthook.yml .lefthook .lefthook-local.yml lefthook-local.yml .overcommit.yml "
    ".pre-commit-config.yml .simple-git-hooks.json .simple-git-hooks.cjs .lintstagedrc .lintstagedrc.* .huskyrc "
    ".huskyrc.* .githooks .git-hooks .mise .mise.* mise.*.toml .rtx.toml "
    ".envrc.* .devcontainer.json .gitpod.yml .gitpod.dockerfile "
    # editors
    "*.code-workspace .nvim.lua .nvim.vim .localvimrc .vim .nvim .zed *.sublime-project .fleet "
    ".helix "
    # build tools' settings that name programs
    ".cargo .yarn .pnpmfile.js .bazelrc user.bazelrc .buckconfig .mvn .bundle "
    ".condarc pip.conf pip.ini .pdm.toml .pdbrc .gemrc .rspec .pryrc .byebugrc .ghci "
    # agents: their rights, their tools, and what they are told
    "agents.md agents.local.md agents.override.md agent.md claude.md claude.local.md gemini.md codex.md qwen.md "
    "warp.md crush.md opencode.md copilot-instructions.md *.instructions.md *.prompt.md *.chatmode.md "
    ".agents .agent .gemini .codex .opencode opencode.json opencode.jsonc .opencode.json .windsurf .windsurfrules "
    ".codeium .roo .roomodes .roorules* .rooignore .kiro .amazonq .continue .continuerc.json .continuerules "
    ".clinerules* .cline .aider* .cursorrules .cursorignore .junie .augment .goosehints .goose "
    ".qwen .crush .crush.json crush.json .trae .rules .openhands "
    ".copilot .factory .amp .kilocode* "
    ".mcp mcp.json .mcp.local.json llms.txt skill.md",
    but=".env.example .env.sample .env.template .env.dist",
)


def resolve(raw: str, cwd: str) -> str:
    return os.path.realpath(os.path.join(cwd, raw))


def inside(path: str, roots: Sequence[Path]) -> bool:
    """Whether a resolved path is a root or below one. `proj-evil` is not below `proj`."""
    return any(Path(path).is_relative_to(os.path.realpath(root)) for root in roots)


def reading_fault(raw: str, cwd: str, roots: Sequence[Path]) -> str | None:
    """Return why reading this path needs a question; None if it does not."""
    if "\0" in raw:
        return "has a NUL in a path"
    path = resolve(raw, cwd)
    if path in _READABLE_FILES:
        return None
    if not inside(path, roots) and not any(Path(path).is_relative_to(place) for place in _READABLE):
        return f"reads {_shown(path)}, which is outside the project"
    if _named(path, _SECRET, roots) or _named(os.path.normpath(os.path.join(cwd, raw)), _SECRET, roots):
        return f"reads {_shown(path)}, which may hold secrets"
    return _odd(path)


def writing_fault(raw: str, cwd: str, roots: Sequence[Path]) -> str | None:
    """Return why writing to this path needs a question; None if it does not."""
    if "\0" in raw:
        return "has a NUL in a path"
    path = resolve(raw, cwd)
    if path == "/dev/null":
        return None
    if not inside(path, roots):
        return f"writes to {_shown(path)}, which is outside the project"
    runs = _named(path, _OBEYED, roots) or _named(os.path.normpath(os.path.join(cwd, raw)), _OBEYED, roots)
    if runs:
        return f"writes to {_shown(path)}, which other programs obey ({_shown(runs)})"
    if _is_in_git_directory(path, roots):
        return f"writes to {_shown(path)}, which is in a directory of git's"
    if _links(path) > 1:
        return f"writes to {_shown(path)}, which has other names (hard links), perhaps outside the project"
    return _odd(path)


def _named(path: str, names: _Names, roots: Sequence[Path]) -> str | None:
    """Return the first component below its root that is in `names`."""
    parts = Path(path).parts
    for root in roots:
        real = Path(os.path.realpath(root))
        if Path(path).is_relative_to(real):
            parts = Path(path).relative_to(real).parts
            break
    return next((part for part in parts if part in names), None)


def _is_in_git_directory(path: str, roots: Sequence[Path]) -> bool:
    """Whether a folder above the path, in the project, is laid out like a git directory, whatever its name."""
    return any(
        inside(str(folder), roots) and all(os.path.lexists(folder / name) for name in ("HEAD", "objects", "refs"))
        for folder in Path(path).parents
    )


def is_secret_name(name: str) -> bool:
    """Whether a file of this name may hold secrets."""
    return name in _SECRET


def is_secret_path(path: str) -> bool:
    """Whether a part of this path says that the file may hold secrets."""
    return any(part in _SECRET for part in path.split("/"))


def obeyed_part(path: str) -> str | None:
    """Return the first component of a project's path that names something that other programs obey; None without."""
    return next((part for part in Path(path).parts if part in _OBEYED), None)


def _links(path: str) -> int:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return 1
    return found.st_nlink if stat.S_ISREG(found.st_mode) else 1


def _odd(path: str) -> str | None:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    return f"opens {_shown(path)}, which is no file or folder"


def _shown(path: str) -> str:
    """Return the path for one line of text, with unprintable and non-ASCII characters escaped."""
    return path if path.isprintable() and path.isascii() else ascii(path)
