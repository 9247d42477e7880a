"""Files that the user's own programs obey: start files, configurations, timers, preloaded code."""

from tests.sandbox.attack import Attack, Effect, attacks

START_FILES = (
    "echo evil >> ~/.bashrc",
    "echo evil >> ~/.profile",
    "echo evil > ~/.bash_profile",
    "echo evil > ~/.zshrc",
    "echo evil > ~/.bash_logout",
    "echo evil > ~/.inputrc",
    "echo evil > ~/.vimrc",
    "mkdir -p ~/.vim/plugin; echo evil > ~/.vim/plugin/x.vim",
    "git config --global alias.x '!evil'",
    "git config --global core.hooksPath $PWD",
    "mkdir -p ~/.config/git; echo evil > ~/.config/git/config",
    "mkdir -p ~/.config/systemd/user; echo evil > ~/.config/systemd/user/evil.service",
    "mkdir -p ~/.config/autostart; echo evil > ~/.config/autostart/evil.desktop",
    "mkdir -p ~/.local/bin; cp /bin/true ~/.local/bin/git",
    "echo evil > ~/.ssh/authorized_keys",
    "echo 'ProxyCommand evil' >> ~/.ssh/config",
    "echo evil >> @home@/.bashrc",
    "sed -i '1i evil' ~/.bashrc",
    "ln -sf $PWD/README.md ~/.profile",
    "mv README.md ~/.bash_aliases",
)

TOOL_FILES = (
    "echo 'script-shell=evil' > ~/.npmrc",
    "mkdir -p ~/.config/pip; echo evil > ~/.config/pip/pip.conf",
    "mkdir -p ~/.cargo; echo evil > ~/.cargo/config.toml",
    "mkdir -p ~/.m2; echo evil > ~/.m2/settings.xml",
    "mkdir -p ~/.gradle; echo evil > ~/.gradle/init.gradle",
    "echo evil > ~/.gdbinit",
    "echo evil > ~/.pythonrc.py",
    "d=~/.local/lib/python3.11/site-packages; mkdir -p $d; echo evil > $d/usercustomize.py",
    "d=~/.local/lib/python3.11/site-packages; mkdir -p $d; echo 'import evil' > $d/evil.pth",
    "mkdir -p ~/.config/nvim; echo evil > ~/.config/nvim/init.lua",
    "echo evil > ~/.curlrc",
    "echo evil > ~/.wgetrc",
    "echo evil > ~/.psqlrc",
    "echo evil > ~/.tmux.conf",
    "mkdir -p ~/.docker; echo '{}' > ~/.docker/config.json",
    "mkdir -p ~/.config/Code/User; echo '{}' > ~/.config/Code/User/settings.json",
    "mkdir -p ~/.claude; echo '{}' > ~/.claude/settings.json",
    "mkdir -p ~/.codex; echo evil > ~/.codex/config.toml",
    "echo evil > @ours@/config.toml",
    "mkdir -p @ours@/hooks; cp /bin/true @ours@/hooks/x",
    "mkdir -p @ours@/skills/x; echo evil > @ours@/skills/x/SKILL.md",
    "echo evil > @other@/.git/hooks/pre-commit",
    "echo evil > @other@/Makefile",
    "echo /tmp/evil.so > /etc/ld.so.preload.new",
    "mkdir -p /var/spool/cron/crontabs; echo evil > /var/spool/cron/crontabs/user",
)

ATTACKS: list[Attack] = [
    *attacks("start-files", Effect.FILES, START_FILES),
    *attacks("tool-files", Effect.FILES, TOOL_FILES),
]
