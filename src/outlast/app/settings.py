"""Settings of the process, read once: flags > environment > home file > project file > defaults. Only a permission mode
that is lower comes from the project file all the same: a cloned repository does not choose for a user who has chosen.

Promises:
- No other module of the package reads the environment.
- `.outlast/config.toml` in a project comes with the cloned repository, so it can only *lower* the permission mode and,
  after the user has consented to exactly these bytes, name a model and a persona. Every other key is refused, not
  ignored: an endpoint, a token or a store from there could leak the user's keys or transcripts.
- An error is one sentence that names the file or variable, the key and the remedy. Tokens are never shown.

Whether a store or a model can be opened is checked by the code that opens it.

Also reports what the environment says about the terminal of this process.
"""

from __future__ import annotations

import os
import pwd
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import msgspec

from outlast.app.gateway_settings import GatewaySettings, gateway_tables
from outlast.core.errors import ConfigError
from outlast.core.workflow_mode import Workflow
from outlast.models.provider_catalog import PROVIDERS
from outlast.runtime.agent_config import DIALECTS
from outlast.runtime.permissions.consent import Consents, content_digest
from outlast.runtime.permissions.mode import PermissionMode
from outlast.runtime.sandbox.limits import ResourceLimits

TOKEN_MIN_CHARS = 32
SANDBOX_CHOICES = ("auto", "external", "none")
NETWORK_CHOICES = ("off", "ask", "on")
HOME, PROJECT = "home", "project"
"""Sources of a setting that are files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    home: Path
    project_root: Path
    store: str
    model: str | None = None
    model_source: str = ""
    """Where the model is named: `flag`, `environment`, `home` or `project`. `outlast.app.models` refuses a model that
    its source may not name."""
    persona: str | None = None
    left_out: tuple[str, ...] = ()
    """Settings of the project's file that do not count, because the user has not consented to its content."""
    workflow: str | None = None
    """plain or guided, for personas that name none; None is plain."""
    base_url: str | None = None
    token: str | None = field(default=None, repr=False)
    permission_mode: PermissionMode = PermissionMode.WORKSPACE_WRITE
    allowed_hosts: tuple[str, ...] = ()
    allowed_projects: tuple[str, ...] = ()
    """Folders in and below which sessions may be created over HTTP, in addition to the known projects."""
    context_window: int | None = None
    """Context window of the model in tokens, if it is unknown or the user overrides it."""
    dialect: str = "auto"
    """How tools are called: native, text, or auto, which begins with native and switches when that does not work."""
    local_model: str | None = None
    """Path of a GGUF file that `--model local` runs instead of the demo model."""
    parallel_calls: int = 4
    """How many reads, or sub-agents, of one reply run side by side."""
    first_token_timeout: int | None = None
    """Seconds until the first token of a reply, else the request is closed; None: 600, and none on this machine."""
    stream_idle_timeout: int = 120
    """Seconds without a token, after the first one, until the request is closed."""
    verify_commands: tuple[str, ...] = ()
    """Commands that verify what a guided turn changed; only the user's own file may name them."""
    resume_on_start: bool = True
    """Whether a server resumes interrupted turns by itself; otherwise the user has to say `continue`."""
    sandbox: str = "auto"
    """auto (the best that works here), external (this machine is itself the wall), or none. No project chooses it."""
    network: str = "ask"
    """Which hosts a sandboxed command reaches: off (none), ask (about each new one), on (every public one)."""
    sandbox_hidden: tuple[str, ...] = ()
    """Paths and patterns that sandboxed commands cannot read, in addition to those that Outlast always hides."""
    sandbox_variables: tuple[str, ...] = ()
    """Names and patterns of environment variables that sandboxed commands get in addition to the usual ones."""
    sandbox_limits: ResourceLimits = field(default_factory=ResourceLimits)
    gateway: tuple[GatewaySettings, ...] = ()
    """The configured gateways of this home."""


def load_settings(
    *,
    home: str | os.PathLike[str] | None = None,
    store: str | None = None,
    model: str | None = None,
    base_url: str | None = None,
    token: str | None = None,
    project_root: str | os.PathLike[str] | None = None,
    permission_mode: str | None = None,
    workflow: str | None = None,
    allowed_hosts: Sequence[str] | None = None,
    resume_on_start: bool | None = None,
    dialect: str | None = None,
    sandbox: str | None = None,
    network: str | None = None,
) -> Settings:
    """The settings of this process. Every argument is a flag and overrides all other sources."""
    home_dir = _home(home)
    root = Path(os.path.abspath(project_root if project_root is not None else Path.cwd()))
    flags = _checked(
        "this call",
        {
            "store": store,
            "model": model,
            "base_url": base_url,
            "token": token,
            "permission_mode": permission_mode,
            "workflow": workflow,
            "allowed_hosts": allowed_hosts,
            "resume_on_start": resume_on_start,
            "dialect": dialect,
            "sandbox": sandbox,
            "network": network,
        },
    )
    environment = _environment()
    own = _read(home_dir / "config.toml", _HOME_KEYS)
    project = _project(root, home_dir, own, {**environment, **flags})
    merged = {
        "store": f"sqlite:///{home_dir}/outlast.db",
        **project,
        **{name: value for name, value in own.items() if name != "permission_mode" or name not in project},
        **environment,
        **flags,
        **_model({"flag": flags, "environment": environment, HOME: own, PROJECT: project}),
    }
    return Settings(home=home_dir, project_root=root, **merged)  # pyright: ignore[reportArgumentType]


def _model(sources: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """The model of the first source that names one, with the name of that source."""
    for source, values in sources.items():
        if "model" in values:
            return {"model": values["model"], "model_source": source}
    return {}


# ---- sources --------------------------------------------------------------------------------------------------------

_VARIABLES = {
    "store": "OUTLAST_STORE",
    "model": "OUTLAST_MODEL",
    "persona": "OUTLAST_PERSONA",
    "workflow": "OUTLAST_WORKFLOW",
    "permission_mode": "OUTLAST_PERMISSION_MODE",
    "base_url": "OUTLAST_BASE_URL",
    "token": "OUTLAST_TOKEN",
    "context_window": "OUTLAST_CONTEXT_WINDOW",
    "parallel_calls": "OUTLAST_PARALLEL_CALLS",
    "resume_on_start": "OUTLAST_RESUME_ON_START",
    "dialect": "OUTLAST_DIALECT",
    "local_model": "OUTLAST_LOCAL_MODEL",
    "first_token_timeout": "OUTLAST_FIRST_TOKEN_TIMEOUT",
    "stream_idle_timeout": "OUTLAST_STREAM_IDLE_TIMEOUT",
    "sandbox": "OUTLAST_SANDBOX",
    "network": "OUTLAST_NETWORK",
}


def in_project(settings: Settings, root: Path) -> Settings:
    """The settings for sessions of another folder. Its project file may lower the permission mode, and may name a model
    or a persona where the user has chosen none."""
    if root == settings.project_root:
        return settings
    found = _project(root, settings.home, {"permission_mode": settings.permission_mode}, {})
    chosen = {"model": settings.model, "model_source": settings.model_source}
    if settings.model is None or settings.model_source == PROJECT:
        chosen = {"model": None, "model_source": "", **_model({PROJECT: found})}
    persona = settings.persona or found.get("persona")
    changes = {"persona": persona, "permission_mode": found.get("permission_mode", settings.permission_mode)}
    return replace(settings, project_root=root, left_out=found.get("left_out", ()), **chosen, **changes)


def own_home() -> Path:
    """The Outlast home of this user, independent of any settings file."""
    return _home(None)


def user_home() -> Path | None:
    """The home folder of this user, for files that several agents share; None if there is none."""
    home = os.environ.get("HOME")
    return Path(os.path.abspath(home)) if home else None


def whole_environment() -> dict[str, str]:
    """All environment variables, for building the environment of child processes."""
    return dict(os.environ)


def variables(names: Iterable[str]) -> dict[str, str]:
    """The named environment variables that are set and not empty; for keys, which are not settings."""
    found = {name: os.environ.get(name, "").strip() for name in names}
    return {name: value for name, value in found.items() if value}


def _home(given: str | os.PathLike[str] | None) -> Path:
    chosen = os.fspath(given) if given is not None else os.environ.get("OUTLAST_HOME")
    if chosen:
        return Path(os.path.abspath(os.path.expanduser(chosen)))
    user_home = os.environ.get("HOME")  # may be unset or empty in a container
    if not user_home:
        try:
            user_home = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError as error:
            raise ConfigError("this user has no home directory; set OUTLAST_HOME to a directory you own") from error
    return Path(os.path.abspath(user_home)) / ".outlast"


def _environment() -> dict[str, object]:
    found: dict[str, object] = {}
    for key, variable in _VARIABLES.items():
        found |= _checked(f"the environment variable {variable}", {key: os.environ.get(variable) or None})
    return found


def _project(root: Path, home: Path, own: Mapping[str, object], said: Mapping[str, object]) -> dict[str, object]:
    """The values of the project's file. `said` (the user's flags and environment) overrides them."""
    path = root / ".outlast" / "config.toml"
    if os.path.realpath(path) == os.path.realpath(home / "config.toml"):
        return {}  # started in the user's home directory: that file is the user's own
    content = _content(path)
    if content is None:
        return {}
    found = _parsed(path, content, _PROJECT_KEYS)
    if "permission_mode" in found and "permission_mode" not in said:
        _refuse_raise(path, found["permission_mode"], own.get("permission_mode", PermissionMode.WORKSPACE_WRITE))
    if _CONSENTED & found.keys() and not Consents(home).covers(path, content_digest(content)):
        return _without_consent(found)
    return found


_CONSENTED = frozenset({"model", "persona"})
"""What a project's file chooses only after the user's consent to its content."""


def _without_consent(found: dict[str, object]) -> dict[str, object]:
    """Return the values that count without consent. A model that no project may name stays: its use is refused."""
    refused = {"model"} if "model" in found and str(found["model"]).partition(":")[0] not in PROVIDERS else set[str]()
    left_out = sorted(_CONSENTED & found.keys() - refused)
    kept = {name: value for name, value in found.items() if name not in left_out}
    return {**kept, "left_out": tuple(left_out)} if left_out else kept


def project_file(settings: Settings) -> Path:
    """The settings file of the project."""
    return settings.project_root / ".outlast" / "config.toml"


def _refuse_raise(path: Path, mode: object, ceiling: object) -> None:
    if isinstance(mode, PermissionMode) and isinstance(ceiling, PermissionMode) and mode.is_at_most(ceiling):
        return
    raise ConfigError(
        f"{path}: a project file may only lower permission_mode, and '{mode}' is not below '{ceiling}'; "
        f"remove it, or start with --permission-mode {mode} yourself"
    )


def _read(path: Path, known: frozenset[str]) -> dict[str, object]:
    content = _content(path)
    return {} if content is None else _parsed(path, content, known)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); correct its permissions or remove it") from error


def _parsed(path: Path, content: bytes, known: frozenset[str]) -> dict[str, object]:
    try:
        table = tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text; save it as UTF-8 or remove it") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not valid TOML ({error}); correct that line or remove the file") from error
    for key in table:
        if key not in known:
            raise ConfigError(_unknown(path, key, known))
    return _checked(str(path), table)


def _unknown(path: Path, key: str, known: frozenset[str]) -> str:
    allowed = ", ".join(sorted(known))
    if key in _HOME_KEYS:
        return (
            f"{path}: a project file may not set '{key}', only {allowed}; "
            "put it into config.toml in your Outlast home or give it as a flag"
        )
    return f"{path}: unknown key '{key}'; known keys are {allowed}"


# ---- validation -----------------------------------------------------------------------------------------------------


def _text(where: str, key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: {key} must be text that is not empty; correct or remove it")
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        raise ConfigError(f"{where}: {key} is not valid UTF-8; correct it")
    return value


def _base_url(where: str, key: str, value: object) -> str:
    url = _text(where, key, value)
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{where}: {key} must start with http:// or https://, usually ending in /v1")
    return url


def _token(where: str, key: str, value: object) -> str:
    token = _text(where, key, value)
    if len(token) < TOKEN_MIN_CHARS:
        raise ConfigError(f"{where}: {key} must have at least {TOKEN_MIN_CHARS} characters; use a longer random one")
    return token


def _permission_mode(where: str, key: str, value: object) -> PermissionMode:
    name = _text(where, key, value)
    try:
        return PermissionMode(name)
    except ValueError as error:
        raise ConfigError(f"{where}: {key} '{name}' is unknown; use one of {', '.join(PermissionMode)}") from error


def _workflow(where: str, key: str, value: object) -> str:
    name = _text(where, key, value)
    if name not in set(Workflow):
        raise ConfigError(f"{where}: {key} '{name}' is unknown; use one of {', '.join(Workflow)}")
    return name


def _hosts(where: str, key: str, value: object) -> tuple[str, ...]:
    return _texts(where, key, value, 'host names, like ["localhost:8765"]')


def _paths(where: str, key: str, value: object) -> tuple[str, ...]:
    return _texts(where, key, value, 'paths, like ["~/secrets"]')


def _variable_names(where: str, key: str, value: object) -> tuple[str, ...]:
    return _texts(where, key, value, 'names of environment variables, like ["MY_FLAG", "APP_*"]')


def _commands(where: str, key: str, value: object) -> tuple[str, ...]:
    return _texts(where, key, value, 'shell commands, like ["pytest -q"]')


def _texts(where: str, key: str, value: object, what: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"{where}: {key} must be a list of {what}")
    return tuple(_text(where, key, item) for item in cast("Sequence[object]", value))


def _folders(where: str, key: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f'{where}: {key} must be a list of folders, like ["~/work"]')
    found = [os.path.expanduser(_text(where, key, folder)) for folder in cast("Sequence[object]", value)]
    if not all(os.path.isabs(folder) for folder in found):
        raise ConfigError(f"{where}: {key} must hold whole paths, from / or ~ on; correct them")
    return tuple(found)


def _tokens(where: str, key: str, value: object) -> int:
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    if type(number) is not int or not 1_000 <= number <= 100_000_000:
        raise ConfigError(f"{where}: {key} must be a number of tokens, at least 1000; correct or remove it")
    return number


def _seconds(where: str, key: str, value: object) -> int:
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    if type(number) is not int or not 10 <= number <= 86_400:
        raise ConfigError(f"{where}: {key} must be a number of seconds, from 10 to 86400; correct or remove it")
    return number


def _dialect(where: str, key: str, value: object) -> str:
    name = _text(where, key, value)
    if name not in DIALECTS:
        raise ConfigError(f"{where}: {key} '{name}' is unknown; use one of {', '.join(DIALECTS)}")
    return name


def _choice(known: Sequence[str]) -> Callable[[str, str, object], str]:
    def check(where: str, key: str, value: object) -> str:
        name = _text(where, key, value)
        if name not in known:
            raise ConfigError(f"{where}: {key} '{name}' is unknown; use one of {', '.join(known)}")
        return name

    return check


def _limits(where: str, key: str, value: object) -> ResourceLimits:
    """The table `[sandbox_limits]`: whole numbers, 0 for no limit."""
    try:
        return msgspec.convert(value, ResourceLimits)
    except msgspec.ValidationError as error:
        known = ", ".join(ResourceLimits.__struct_fields__)
        raise ConfigError(f"{where}: {key} is invalid ({error}); it is a table of numbers: {known}") from error


def _path(where: str, key: str, value: object) -> str:
    path = os.path.expanduser(_text(where, key, value))
    if not os.path.isabs(path):
        raise ConfigError(f"{where}: {key} must be a whole path, like /models/my.gguf or ~/models/my.gguf")
    return path


def _parallel_calls(where: str, key: str, value: object) -> int:
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    if type(number) is not int or not 1 <= number <= 64:
        raise ConfigError(f"{where}: {key} must be a number from 1 to 64; 1 runs one call after the other")
    return number


def _yes_or_no(where: str, key: str, value: object) -> bool:
    known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    found = known.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise ConfigError(f"{where}: {key} must be true or false; correct or remove it")
    return found


_CHECKS: Mapping[str, Callable[[str, str, object], object]] = {
    "store": _text,
    "model": _text,
    "persona": _text,
    "workflow": _workflow,
    "base_url": _base_url,
    "token": _token,
    "permission_mode": _permission_mode,
    "allowed_hosts": _hosts,
    "allowed_projects": _folders,
    "context_window": _tokens,
    "parallel_calls": _parallel_calls,
    "verify_commands": _commands,
    "resume_on_start": _yes_or_no,
    "dialect": _dialect,
    "local_model": _path,
    "first_token_timeout": _seconds,
    "stream_idle_timeout": _seconds,
    "sandbox": _choice(SANDBOX_CHOICES),
    "network": _choice(NETWORK_CHOICES),
    "sandbox_hidden": _paths,
    "sandbox_variables": _variable_names,
    "sandbox_limits": _limits,
    "gateway": gateway_tables,
}
SETTING_NAMES = tuple(name for name in _CHECKS if name not in {"gateway", "sandbox_limits"})
"""The settings that have one value each; `gateway` and `sandbox_limits` are tables."""
_HOME_KEYS = frozenset(_CHECKS)
_PROJECT_KEYS = frozenset({"model", "persona", "permission_mode"})


def _checked(where: str, values: Mapping[str, object]) -> dict[str, object]:
    return {key: _CHECKS[key](where, key, value) for key, value in values.items() if value is not None}


def rewraps_lines() -> bool:
    """Whether this terminal rewraps long lines when it gets narrower. Nearly all do; the exceptions cut lines."""
    found = whole_environment()
    return found.get("TERM") != "linux" and "XTERM_VERSION" not in found and "STY" not in found


def wants_colours() -> bool:
    """False if `NO_COLOR` is set to any non-empty value: https://no-color.org."""
    return not whole_environment().get("NO_COLOR")
