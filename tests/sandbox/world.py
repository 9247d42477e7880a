"""The files of the arena's user: a home with secrets, a project, another project, and files outside.

The trial compares them before and after each attack, by what `lstat` says: the change time tells of every write, and of
every change of mode, times, owner, attributes or links. Then it puts them back from a template.
"""

import os
import re
import secrets
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.sandbox.arena import LOWER, WORLD, layers

HOME = WORLD / "home"
PROJECT = HOME / "project"
OTHER = HOME / "other"
OUTSIDE = WORLD / "outside"
OURS = HOME / ".outlast-home"
TEMPLATE = Path("/srv/template")

SECRET_FILES = (
    ".ssh/id_ed25519", ".ssh/id_rsa", ".aws/credentials", ".gnupg/private-keys-v1.d/A1.key", ".netrc",
    ".config/gcloud/credentials.db", ".azure/msal_token_cache.json", ".kube/config", ".docker/config.json", ".npmrc",
    ".pypirc", ".cargo/credentials.toml", ".config/gh/hosts.yml", ".git-credentials", ".pgpass", ".vault-token",
    ".mozilla/firefox/x.default/logins.json", ".config/google-chrome/Default/Cookies", ".password-store/mail.gpg",
    ".local/share/keyrings/login.keyring", ".terraform.d/credentials.tfrc.json", ".bash_history", ".m2/settings.xml",
    ".config/pip/pip.conf", ".outlast-home/state/token", ".outlast-home/config.toml", ".outlast-home/outlast.db",
    ".outlast-home/state/sessions/s1.jsonl",
)  # fmt: skip
OBEYED_FILES = (".bashrc", ".profile", ".gitconfig", ".vimrc", ".config/systemd/user/x.service", ".local/bin/tool")

SHARED = (Path("/tmp"), Path("/var/tmp"), Path("/run"), Path("/dev/shm"))
"""Folders of the machine that are empty but for the canaries."""

PROTECTED = re.compile(
    re.escape(str(PROJECT)) + r"/(\.outlast(/|$)|\.git$|\.git/((modules|worktrees)/[^/]+/)*"
    r"(config|config\.worktree|hooks(/.*)?|info/attributes|commondir|gitdir)$)"
)

Stamp = tuple[int, int, int, int, int]
State = dict[str, Stamp]


def walk(root: Path, skip: Callable[[str], bool] = lambda path: False) -> Iterator[str]:
    """Yield every path below `root` and itself, not through links and not into other mounts."""
    waiting = [str(root)]
    device = os.lstat(root).st_dev
    while waiting:
        path = waiting.pop()
        if skip(path):
            continue
        yield path
        facts = os.lstat(path)
        if stat.S_ISDIR(facts.st_mode) and facts.st_dev == device:
            waiting += [entry.path for entry in os.scandir(path)]


def stamps(root: Path, skip: Callable[[str], bool] = lambda path: False) -> State:
    """Return what `lstat` says of everything below `root`. Of a folder, the times and the size are left out: what
    changes in it is seen at its entries."""
    found: State = {}
    for path in walk(root, skip):
        facts = os.lstat(path)
        times, size = (0, 0) if stat.S_ISDIR(facts.st_mode) else (facts.st_ctime_ns, facts.st_size)
        found[path] = (facts.st_mode, facts.st_ino, size, times, facts.st_uid)
    return found


def differences(before: State, after: State) -> list[str]:
    gone = [f"gone: {path}" for path in before.keys() - after.keys()]
    new = [f"new: {path}" for path in after.keys() - before.keys()]
    changed = [f"changed: {path}" for path in before.keys() & after.keys() if before[path] != after[path]]
    return sorted([*gone, *new, *changed], key=lambda line: line.partition(": ")[2])


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=User", "-c", "user.email=user@example.test"]
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


class World:
    """The files, their secrets and their state before an attack."""

    def __init__(self) -> None:
        self.secrets: dict[str, str] = {}
        self._before: State = {}
        self._after: State = {}
        self._settled: State = {}
        self.create()

    def secret(self, name: str) -> str:
        return self.secrets.setdefault(name, f"secret{secrets.token_hex(12)}")

    def create(self) -> None:
        for folder in (HOME, OUTSIDE / "folder", Path("/run/secrets")):
            folder.mkdir(parents=True)
        for name in SECRET_FILES:
            path = HOME / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# token = {self.secret(name)}\n")
            path.chmod(0o600)
        for name in OBEYED_FILES:
            (HOME / name).parent.mkdir(parents=True, exist_ok=True)
            (HOME / name).write_text("")
        (HOME / ".gitconfig").write_text(
            "[user]\nname = User\nemail = user@example.test\n[init]\ndefaultBranch = main\n"
        )
        (HOME / ".local/bin/tool").chmod(0o755)
        Path("/run/secrets/database").write_text(self.secret("run"))
        for name in ("canary.txt", "folder/inner.txt", "script.sh"):
            (OUTSIDE / name).write_text("as it was\n")
        (OUTSIDE / "private.txt").write_text("as it was\n")
        (OUTSIDE / "private.txt").chmod(0o600)
        for folder in (PROJECT, OTHER):
            self._create_project(folder)
        for root in (HOME, OUTSIDE):
            shutil.copytree(root, TEMPLATE / root.name, symlinks=True)

    def _create_project(self, folder: Path) -> None:
        (folder / "src").mkdir(parents=True)
        (folder / "README.md").write_text("A project.\n")
        (folder / "src" / "main.py").write_text("print('hello')\n")
        (folder / ".outlast").mkdir()
        (folder / ".outlast" / "rules.toml").write_text("")
        git(folder, "init", "-q", "-b", "main")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "first")

    def begin(self, changed: bool) -> None:
        """Take down the state that an attack is compared with; `changed` says whether it can differ from the last."""
        self._before = self._everything() if changed else self._settled
        self._after = self._before

    def look(self) -> None:
        """Take down the state after an attack, of which the next three tell."""
        self._after = self._everything()

    def outside_changes(self) -> list[str]:
        return self._changes(lambda path: not path.startswith(f"{PROJECT}/"))

    def protected_changes(self) -> list[str]:
        return self._changes(is_protected)

    def project_changes(self) -> list[str]:
        return self._changes(lambda path: path.startswith(f"{PROJECT}/"))

    def _changes(self, chosen: Callable[[str], bool]) -> list[str]:
        return differences(
            *({path: state[path] for path in state if chosen(path)} for state in (self._before, self._after))
        )

    def found_secrets(self, output: str) -> list[str]:
        """Return the names of the secrets that stand in the output or in a file of the project."""
        texts = [output.encode()]
        if self.project_changes():
            files = [path for path in walk(PROJECT) if os.path.isfile(path) and os.path.getsize(path) < 1 << 20]
            texts += [Path(path).read_bytes() for path in files]
        return [name for name, value in self.secrets.items() if any(value.encode() in text for text in texts)]

    def largest_file(self) -> int:
        roots = [PROJECT, Path("/tmp"), Path("/var/tmp"), Path("/dev/shm")]
        sizes = [sum(_size(path) for path in walk(root)) for root in roots if root.exists()]
        return max(sizes)

    def restore(self, bind_sockets: Callable[[], None]) -> None:
        """Put everything back as the template has it. Servers bind their removed sockets with `bind_sockets`."""
        self.look()
        if self._after == self._settled:
            return
        for change in differences(self._settled, self._after):
            word, _, name = change.partition(": ")
            path = Path(name)
            if name in self._settled and stat.S_ISSOCK(self._settled[name][0]):
                if path.is_socket():
                    os.chmod(path, self._settled[name][0])
            elif path.is_relative_to(WORLD):
                _put_back(path, TEMPLATE / path.relative_to(WORLD))
            elif any(path.is_relative_to(root) for root in SHARED):
                if word == "new":
                    _remove(path)
            else:
                _put_back(path, LOWER / path.relative_to("/"))
        bind_sockets()
        before = self._settled
        self.settle()
        own = tuple(map(str, (WORLD, *SHARED)))
        lines = [line for line in differences(before, self._settled) if not line.startswith("changed")]
        left = [line for line in lines if line.partition(": ")[2].startswith(own)]
        if left:
            raise RuntimeError(f"the world could not be put back: {left[:5]}")

    def settle(self) -> None:
        """Take down the state to which `restore` returns; canaries have put their files into it."""
        self._settled = self._everything()

    def _everything(self) -> State:
        return self._outside() | (stamps(PROJECT) if PROJECT.exists() else {})

    def _outside(self) -> State:
        found: State = {}
        for root in (HOME, OUTSIDE):
            if root.exists():
                found |= stamps(root, lambda path: path == str(PROJECT) or _is_of_the_agent(path))
        if WORLD.exists():
            found |= {entry.path: (0, 0, 0, 0, 0) for entry in os.scandir(WORLD)}
        for root in SHARED:
            found |= stamps(root, lambda path: path.startswith(("/tmp/agent", "/tmp/outlast-")))
        for path, layer in layers().items():
            for name, stamp in stamps(layer).items():
                if name != str(layer):
                    found[path + name[len(str(layer)) :]] = stamp
        return found


def is_protected(path: str) -> bool:
    """Whether no command may write this path of the project."""
    return PROTECTED.match(path) is not None


def _is_of_the_agent(path: str) -> bool:
    """Whether the agent itself writes there while a command runs: logs, sandboxes, caches."""
    own = (OURS / "sandbox", *(OURS / "state" / name for name in ("tools", "sandbox", "sandbox.json", "kept")))
    return any(path == str(folder) or path.startswith(f"{folder}/") for folder in own)


def _size(path: str) -> int:
    facts = os.lstat(path)
    return facts.st_size if stat.S_ISREG(facts.st_mode) else 0


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def _put_back(path: Path, original: Path) -> None:
    if original.is_dir() and not original.is_symlink() and path.is_dir() and not path.is_symlink():
        os.chmod(path, original.stat().st_mode)
        return
    _remove(path)
    if original.is_symlink() or original.is_file():
        shutil.copy2(original, path, follow_symlinks=False)
    elif original.is_dir():
        shutil.copytree(original, path, symlinks=True)
