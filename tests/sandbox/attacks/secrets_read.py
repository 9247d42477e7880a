"""Reads of the user's secrets: files, our own home, the environment, the memory and files of other processes."""

from tests.sandbox.attack import Attack, Effect, attacks

SECRET_FILES = (
    "cat ~/.ssh/id_ed25519",
    "cp ~/.ssh/id_rsa stolen",
    "grep -r secret ~/.aws",
    "cat ~/.gnupg/private-keys-v1.d/*",
    "cat @home@/.netrc",
    "strings ~/.config/gcloud/credentials.db",
    "head -5 ~/.azure/msal_token_cache.json",
    "cat ~/.kube/config",
    "python3 -c \"import os; print(open(os.path.expanduser('~/.docker/config.json')).read())\"",
    "cat ~/.npmrc",
    "cat ~/.pypirc",
    "cat ~/.cargo/credentials.toml",
    "cat ~/.config/gh/hosts.yml",
    "sed -n p ~/.git-credentials",
    "awk 1 ~/.pgpass",
    "cat ~/.vault-token",
    "cat ~/.mozilla/firefox/*/logins.json",
    "cat ~/.config/google-chrome/Default/Cookies",
    "tar cf stolen.tar -C ~ .password-store .local/share/keyrings",
    "cat ~/.terraform.d/credentials.tfrc.json",
    "cat /run/secrets/database",
    "ln -s ~/.ssh s; cat s/id_ed25519",
    "ln ~/.ssh/id_rsa stolen; cat stolen",
    "cat /proc/self/root@home@/.ssh/id_ed25519",
    "find ~ -name 'id_*' -exec cat {} +",
)

OUR_HOME = (
    "cat @ours@/state/token",
    "cat @ours@/config.toml",
    "cat @ours@/outlast.db",
    "cat @ours@/state/sessions/*",
    "cp -r @ours@ stolen",
    "grep -r secret @ours@",
    'cat "$OUTLAST_HOME/state/token" || cat ~/.outlast-home/state/token',
    "cd @ours@ && cat state/token",
    "ln -s @ours@ l; cat l/state/token",
    "tar cf - -C @ours@ . | cat > stolen.tar",
    "python3 -c \"print(open('@ours@/state/token').read())\"",
    "cat /proc/1/root@ours@/state/token",
    "cat ../.outlast-home/state/token",
    "mv @ours@/state/token . && cat token",
    "ln @ours@/state/token t && cat t",
)

ENVIRONMENT = (
    "env",
    "printenv ANTHROPIC_API_KEY",
    "echo $OPENAI_API_KEY",
    "export -p",
    "set",
    "declare -x",
    "cat /proc/self/environ",
    "cat /proc/$PPID/environ",
    "cat /proc/$$/environ",
    "python3 -c 'import os; print(os.environ)'",
    "perl -e 'print \"$_=$ENV{$_}\\n\" for keys %ENV'",
    "node -e 'console.log(JSON.stringify(process.env))'",
    "awk 'BEGIN { for (k in ENVIRON) print k, ENVIRON[k] }'",
    "bash -c 'compgen -e | while read n; do echo \"${!n}\"; done'",
    'printf \'%s\\n\' "${GITHUB_TOKEN}" "${AWS_SECRET_ACCESS_KEY}" > stolen',
    "cat /proc/@agent@/environ | tr '\\0' '\\n'",
    "for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; done 2>/dev/null | grep -a API_KEY",
    "ps eww -A",
    'echo "$DATABASE_URL $MY_SERVICE_PASSWORD $NPM_TOKEN"',
    "jq -n env",
)

_PEEK = (
    "import ctypes, os; l = ctypes.CDLL(None, use_errno=True); b = ctypes.create_string_buffer(64); "
    "v = (ctypes.c_void_p * 2)(ctypes.addressof(b), 64); r = (ctypes.c_void_p * 2)(@secret_at@, 64); "
)

OTHER_PROCESSES_READ = (
    "cat /proc/@victim@/environ",
    "grep -az SECRET /proc/@victim@/environ | tr '\\0' '\\n'",
    "cat /proc/@victim@/fd/@descriptor@",
    "cp /proc/@victim@/fd/@descriptor@ stolen",
    "cat /proc/@victim@/root@home@/.ssh/id_rsa",
    "cat /proc/@victim@/cwd/../home/.netrc",
    "dd if=/proc/@victim@/mem bs=1 skip=@secret_at@ count=64",
    f'python3 -c "{_PEEK} l.process_vm_readv(@victim@, v, 1, r, 1, 0); print(b.raw)"',
    "python3 -c \"f = open('/proc/@victim@/mem', 'rb'); f.seek(@secret_at@); print(f.read(64))\"",
    'python3 -c "import ctypes, os; l = ctypes.CDLL(None); p = os.pidfd_open(@victim@); '
    'print(os.pread(l.syscall(438, p, @descriptor@, 0), 99, 0))"',
    "nsenter -t @victim@ -m cat @home@/.ssh/id_rsa || nsenter -t @victim@ cat @home@/.ssh/id_rsa",
    "strings -n 20 /proc/@victim@/environ",
    "python3 -c \"print(open('/proc/@victim@/environ').read())\"",
    "perl -e 'open F, \"/proc/@victim@/environ\"; print <F>'",
    "tr '\\0' '\\n' < /proc/@victim@/task/@victim@/environ",
    "cat /proc/@victim@/task/@victim@/fd/@descriptor@",
    "cat /proc/@victim@/task/@victim@/cwd/../../../../../../run/secrets/database",
    "ps eww -p @victim@",
)

ATTACKS: list[Attack] = [
    *attacks("secret-files", Effect.SECRET, SECRET_FILES),
    *attacks("our-home", Effect.SECRET, OUR_HOME),
    *attacks("environment", Effect.SECRET, ENVIRONMENT),
    *attacks("other-processes-read", Effect.SECRET, OTHER_PROCESSES_READ),
]
