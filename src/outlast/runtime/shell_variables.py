"""Environment variables by what they do: secrets, variables that run other code, sockets, and quiet programs."""

from __future__ import annotations

UNSET = frozenset(
    (
        "BASH_ENV",
        "ENV",
        "CDPATH",
        "GLOBIGNORE",
        "SHELLOPTS",
        "BASHOPTS",
        "POSIXLY_CORRECT",
        "PROMPT_COMMAND",
        "PS4",
        "GREP_OPTIONS",
        "RIPGREP_CONFIG_PATH",
        "GIT_EXTERNAL_DIFF",
        "GIT_CONFIG_PARAMETERS",
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "LESSOPEN",
    )
)
"""Variables (and every BASH_FUNC_*) that change the meaning of a plain command: remove them from every shell."""

SECRET = (
    "*_API_KEY", "*_KEY", "*_KEY_ID", "*APIKEY*", "*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*",
    "*CREDENTIAL*", "*_PAT", "*_DSN", "AWS_*", "AZURE_*", "GOOGLE_APPLICATION_*", "OPENAI_*", "ANTHROPIC_*",
    "GEMINI_*", "OUTLAST_*",
)  # fmt: skip
MEDDLING = (
    "BASH_ENV",
    "ENV",
    "BASH_FUNC_*",
    "PROMPT_COMMAND",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "LD_PRELOAD",
    "LD_AUDIT",
    *UNSET,
)
"""Variables that make a shell or a program run something before the command that was judged."""

SOCKETS = (
    "SSH_AUTH_SOCK", "SSH_AGENT_PID", "SSH_ASKPASS*", "GPG_AGENT_INFO", "GNOME_KEYRING_*", "KEYRING_*", "DBUS_*",
    "TMUX", "TMUX_*", "STY", "ZELLIJ*", "KITTY_LISTEN_ON", "NVIM", "NVIM_LISTEN_ADDRESS", "VSCODE_IPC_HOOK*",
    "VSCODE_GIT_*", "DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST", "CONTAINERD_*", "PODMAN_*", "BUILDKIT_HOST",
    "XDG_RUNTIME_DIR", "DISPLAY", "XAUTHORITY", "WAYLAND_*", "SWAYSOCK", "I3SOCK", "HYPRLAND_*", "NIRI_SOCKET",
    "PULSE_SERVER", "PIPEWIRE_*", "AT_SPI_*", "SESSION_MANAGER", "ICEAUTHORITY", "LISTEN_FDS", "NOTIFY_SOCKET",
)  # fmt: skip
"""Variables that name a program which acts for any client: an agent for keys, a terminal, a display, a bus."""

QUIET = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
}
"""No user is there to scroll, answer or edit."""
