"""The environment of a sandboxed command, from a list: what is not on it, a command does not get.

The list names what builds and tests need. It has no keys and tokens, no sockets of agents, displays or containers, no
proxies (the sandbox sets its own), and no GIT_CONFIG_*, whose values may be headers with a token. A user adds names by
a setting; one that looks like a secret is then the user's own decision.

`tools.process.environment.clean_environment` stays for commands without a sandbox: it removes what is known to be
dangerous, and keeps the rest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache

from outlast.runtime.shell_variables import MEDDLING, QUIET, SECRET

ALLOWED: tuple[str, ...] = (
    # who and where
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "TZ", "LANG", "LANGUAGE", "LC_*", "COLUMNS", "LINES",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS",
    "MANPATH", "INFOPATH", "LS_COLORS", "CLICOLOR", "FORCE_COLOR",
    # continuous integration and modes of build tools
    "CI", "GITHUB_ACTIONS", "DEBUG", "VERBOSE", "NODE_ENV", "RAILS_ENV", "RACK_ENV", "APP_ENV", "FLASK_ENV", "MIX_ENV",
    "DJANGO_SETTINGS_MODULE", "ASPNETCORE_ENVIRONMENT", "DOTNET_ENVIRONMENT", "SOURCE_DATE_EPOCH", "MAKEFLAGS",
    "NUM_JOBS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_HOME", "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES", "ROCM_PATH",
    # compilers and libraries
    "CC", "CXX", "CPP", "LD", "AR", "AS", "NM", "RANLIB", "STRIP", "FC", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS",
    "LDLIBS", "FFLAGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR", "ACLOCAL_PATH",
    "CMAKE_*", "MESON_*", "NINJA_STATUS", "CCACHE_*", "SCCACHE_DIR", "SDKROOT", "DEVELOPER_DIR",
    "MACOSX_DEPLOYMENT_TARGET", "ANDROID_HOME", "ANDROID_SDK_ROOT", "ANDROID_NDK_*", "QT_*DIR", "LLVM_*",
    # Python
    "VIRTUAL_ENV", "CONDA_*", "MAMBA_*", "PYENV_*", "PYTHONPATH", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONWARNINGS", "PIP_CACHE_DIR", "PIP_REQUIRE_VIRTUALENV",
    "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_TRUSTED_HOST", "PIP_NO_INDEX", "PIP_CONSTRAINT",
    "PIP_CERT", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_OFFLINE",
    "UV_CACHE_DIR", "UV_PYTHON", "UV_LINK_MODE", "POETRY_*", "PIPENV_*", "HATCH_*", "TOX_*", "NOX_*", "PYTEST_ADDOPTS",
    "PRE_COMMIT_HOME", "MYPYPATH", "HF_HOME", "JUPYTER_*DIR",
    # JavaScript
    "NODE_PATH", "NODE_OPTIONS", "NVM_*", "FNM_*", "VOLTA_HOME", "N_PREFIX", "PNPM_HOME", "BUN_INSTALL", "DENO_DIR",
    "COREPACK_HOME", "YARN_CACHE_FOLDER", "YARN_GLOBAL_FOLDER", "npm_config_cache", "npm_config_prefix",
    "npm_config_registry",
    "NPM_CONFIG_REGISTRY", "npm_config_offline", "npm_config_prefer_offline", "YARN_REGISTRY",
    "YARN_NPM_REGISTRY_SERVER",
    "PLAYWRIGHT_BROWSERS_PATH", "PUPPETEER_*", "CYPRESS_CACHE_FOLDER", "CHROME_BIN", "BROWSERSLIST*",
    # JVM, Go, Rust, Ruby, PHP, .NET, Haskell, Erlang, R, Perl, Lua
    "JAVA_HOME", "JDK_HOME", "JRE_HOME", "JAVA_OPTS", "M2_HOME", "MAVEN_HOME", "MAVEN_OPTS", "GRADLE_HOME",
    "GRADLE_USER_HOME", "GRADLE_OPTS", "ANT_HOME", "SBT_OPTS", "SCALA_HOME", "KOTLIN_HOME", "SDKMAN_DIR",
    "GOPATH", "GOROOT", "GOBIN", "GOCACHE", "GOMODCACHE", "GOFLAGS", "GOOS", "GOARCH", "GOARM", "GOAMD64", "CGO_*",
    "GOPROXY", "GOPRIVATE", "GONOPROXY", "GOSUMDB", "GONOSUMDB", "GONOSUMCHECK", "GOINSECURE", "GOVCS", "GOWORK",
    "GO111MODULE", "GOTOOLCHAIN", "GOEXPERIMENT", "GOTMPDIR",
    "CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_BUILD_*", "CARGO_INCREMENTAL", "CARGO_NET_OFFLINE", "CARGO_TERM_*",
    "CARGO_REGISTRIES_*_INDEX", "RUSTUP_DIST_SERVER", "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN", "RUSTFLAGS", "RUSTDOCFLAGS", "RUST_BACKTRACE", "RUST_LOG", "RUSTC_WRAPPER",
    "GEM_HOME", "GEM_PATH", "BUNDLE_PATH", "BUNDLE_WITHOUT", "BUNDLE_GEMFILE", "RBENV_*", "RUBYOPT", "RUBYLIB",
    "COMPOSER_HOME", "COMPOSER_CACHE_DIR", "PHPRC", "PHP_INI_SCAN_DIR",
    "DOTNET_ROOT", "DOTNET_CLI_*", "DOTNET_NOLOGO", "NUGET_PACKAGES", "STACK_ROOT", "GHCUP_*", "CABAL_DIR",
    "ERL_LIBS", "HEX_HOME", "MIX_HOME", "R_HOME", "R_LIBS*", "PERL5LIB", "PERL_MB_OPT", "PERL_MM_OPT",
    "PERL_LOCAL_LIB_ROOT", "LUA_PATH", "LUA_CPATH", "OPAM*", "CAML_LD_LIBRARY_PATH", "JULIA_*PATH", "ASDF_*",
    "MISE_*DIR", "NIX_PATH", "NIX_PROFILES", "NIX_SSL_CERT_FILE", "IN_NIX_SHELL", "GUIX_*", "HOMEBREW_PREFIX",
    "HOMEBREW_CELLAR", "HOMEBREW_REPOSITORY", "TEXINPUTS", "BIBINPUTS",
    # certificates, and who commits
    "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
    "GIT_AUTHOR_*", "GIT_COMMITTER_*",
    "GIT_OPTIONAL_LOCKS", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES",
)  # fmt: skip
_LOGIN_IN_URL = re.compile(r"://[^/\s@]+@")
"""A user name is one too: many registries take a token in its place."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def sandbox_environment(
    environ: Mapping[str, str], *, added: Iterable[str] = (), session_id: str = ""
) -> dict[str, str]:
    """Return what a sandboxed command gets of `environ`. `added` are names or patterns from the user's settings."""
    own = tuple(added)
    kept = {
        name: value
        for name, value in environ.items()
        if _NAME.fullmatch(name) and "\0" not in value and (_is_added(name, own) or _is_allowed(name, value))
    }
    kept.update(QUIET)
    kept["PATH"] = search_path(kept.get("PATH", ""))
    kept.pop("LANGUAGE", None)
    for name in [name for name in kept if name.startswith("LC_")]:
        del kept[name]  # one that is not UTF-8 would change how a shell reads the command
    kept["LC_ALL"] = "C.UTF-8"
    if session_id:
        kept["OUTLAST_SESSION_ID"] = session_id
    return kept


def search_path(path: str) -> str:
    """Return PATH without relative and empty elements: with one, the project could put its own `ls` first."""
    folders = dict.fromkeys(folder for folder in path.split(":") if os.path.isabs(folder))
    return ":".join(folders) or DEFAULT_PATH


def _is_added(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _is_allowed(name: str, value: str) -> bool:
    return _is_listed(name) and not _LOGIN_IN_URL.search(value)


@cache
def _is_listed(name: str) -> bool:
    if any(fnmatchcase(name.upper(), pattern) for pattern in (*SECRET, *MEDDLING)):
        return False
    return any(fnmatchcase(name, pattern) for pattern in ALLOWED)
