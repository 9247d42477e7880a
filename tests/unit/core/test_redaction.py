"""Secrets of known shapes are taken out of a text; ordinary words stay."""

from __future__ import annotations

import pytest

from outlast.core.redaction import redacted, redacted_value

A = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAbCdEfGhIjKlMnOpQrStUvWxYz0123456789aBcDeFgHiJkLmNoPqRsTuVwXyZ"
H = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
L = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

# Put together here, so that no scanner takes this file for a leak.
CANARIES = {
    "openai": "sk-" + A[:48],
    "openai project": "sk-proj-" + A[:60],
    "openai service": "sk-svcacct-" + A[:60],
    "openai admin": "sk-admin-" + A[:60],
    "anthropic": "sk-ant-api03-" + A[:80],
    "anthropic admin": "sk-ant-admin01-" + A[:80],
    "openrouter": "sk-or-v1-" + H[:64],
    "google": "AIza" + A[:35],
    "google token": "ya29." + A[:60],
    "google secret": "GOCSPX-" + A[:28],
    "aws id": "AKIA" + "ABCDEFGHIJKLMN23",
    "aws temporary id": "ASIA" + "ABCDEFGHIJKLMN23",
    "aws secret": "aws_secret_access_key = " + A[:40],
    "aws session": "IQoJ" + A * 2,
    "github": "ghp_" + A[:36],
    "github oauth": "gho_" + A[:36],
    "github server": "ghs_" + A[:36],
    "github refresh": "ghr_" + A[:36],
    "github user": "ghu_" + A[:36],
    "github fine": "github_pat_" + A[:22] + "_" + A[:59],
    "gitlab": "glpat-" + A[:20],
    "gitlab deploy": "gldt-" + A[:20],
    "gitlab runner": "glrt-" + A[:20],
    "slack bot": "xoxb-" + "123456789012-1234567890123-" + A[:24],
    "slack user": "xoxp-" + "123456789012-1234567890123-" + A[:24],
    "slack refresh": "xoxe.xoxp-" + "1-" + A[:60],
    "slack app": "xapp-1-" + "A0123456789-1234567890123-" + H[:64],
    "slack webhook": "https://hooks.slack.com/services/" + "T0000/B0000/" + A[:24],
    "discord webhook": "https://discord.com/api/webhooks/" + "123456789012345678/" + A[:60],
    "discord bot": "M" + A[:23] + "." + A[:6] + "." + A[:38],
    "telegram": "123456789:" + A[:35],
    "stripe": "sk_live_" + A[:24],
    "stripe restricted": "rk_live_" + A[:24],
    "stripe webhook": "whsec_" + A[:32],
    "twilio": "SK" + H[:32],
    "sendgrid": "SG." + A[:22] + "." + A[:43],
    "mailgun": "key-" + H[:32],
    "mailchimp": H[:32] + "-us12",
    "npm": "npm_" + A[:36],
    "pypi": "pypi-AgE" + A[:70],
    "docker": "dckr_pat_" + A[:27],
    "rubygems": "rubygems_" + H[:48],
    "hugging face": "hf_" + L[:34],
    "replicate": "r8_" + A[:37],
    "groq": "gsk_" + A[:52],
    "xai": "xai-" + A[:80],
    "perplexity": "pplx-" + A[:48],
    "nvidia": "nvapi-" + A[:64],
    "cerebras": "csk-" + H[:48],
    "fireworks": "fw_" + A[:24],
    "voyage": "pa-" + A[:43],
    "tavily": "tvly-" + A[:32],
    "langsmith": "lsv2_pt_" + H[:32] + "_" + H[:10],
    "databricks": "dapi" + H[:32],
    "digitalocean": "dop_v1_" + H[:64],
    "heroku": "HRKU-" + A[:60],
    "shopify": "shpat_" + H[:32],
    "square": "sq0atp-" + A[:22],
    "linear": "lin_api_" + A[:40],
    "notion": "ntn_" + A[:46],
    "figma": "figd_" + A[:40],
    "airtable": "pat" + A[:14] + "." + H[:64],
    "atlassian": "ATATT3" + A[:80],
    "doppler": "dp.pt." + A[:43],
    "vault": "hvs." + A[:90],
    "terraform": A[:14] + ".atlasv1." + A[:67],
    "grafana": "glsa_" + A[:32] + "_" + H[:8],
    "sentry": "sntrys_" + A[:80],
    "new relic": "NRAK-" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ0",
    "postman": "PMAK-" + H[:24] + "-" + H[:34],
    "pulumi": "pul-" + H[:40],
    "planetscale": "pscale_tkn_" + A[:43],
    "supabase": "sbp_" + H[:40],
    "netlify": "nfp_" + A[:36],
    "fly": "fm2_" + A[:90],
    "tailscale": "tskey-auth-" + A[:17] + "-" + A[:32],
    "azure storage": "AccountKey=" + A[:86] + "==",
    "jwt": "eyJ" + A[:30] + ".eyJ" + A[:40] + "." + A[:43],
    "age": "AGE-SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" * 2,
    "rsa": "-----BEGIN RSA PRIVATE KEY-----\n" + A + "\n" + A + "\n-----END RSA PRIVATE KEY-----",
    "openssh": "-----BEGIN OPENSSH PRIVATE KEY-----\n" + A + "\n-----END OPENSSH PRIVATE KEY-----",
    "pem cut off": "-----BEGIN PRIVATE KEY-----\n" + A,
    "pem in json": "-----BEGIN EC PRIVATE KEY-----\\n" + A + "\\n-----END EC PRIVATE KEY-----\\n",
    "bearer": "Authorization: Bearer " + A[:32],
    "basic": "authorization: Basic " + A[:24],
    "bearer in json": '{"Authorization": "Bearer ' + A[:32] + '"}',
    "url": "postgresql://admin:" + "s3cretPassw0rd" + "@db.internal/x",
    "redis url": "redis://:" + "s3cretPassw0rd" + "@cache:6379",
    "password": 'password = "' + "correct-horse" + '"',
    "json password": '"db_password": "' + "correct-horse" + '"',
    "env": "MY_SERVICE_API_KEY=" + "q1w2e3r4t5y6u7",
    "flag": "mysql --password=" + "correct-horse",
    "header key": "x-api-key: " + "q1w2e3r4t5y6u7",
    "cookie": "Cookie: session=" + A[:30],
}


L5 = {
    "netrc": ("machine api.example.com login me password " + "hunter2hunter2", "hunter2hunter2"),
    "netrc in lines": ("machine a.b\n  login me\n  password " + "pw-of-mine", "pw-of-mine"),
    "pgpass": ("db.internal:5432:app:me:" + "s3cretOfMine", "s3cretOfMine"),
    "pgpass of all": ("*:*:*:postgres:" + "s3cretOfMine", "s3cretOfMine"),
    "curl user": ("curl -s -u me:" + "pw0rd https://x.example", "pw0rd"),
    "curl long user": ("curl --user 'me:" + "pw0rd9' https://x.example", "pw0rd9"),
    "mysql": ("mysql -h db -u root -p" + "Tr0ub4dor app", "Tr0ub4dor"),
    "sshpass": ("sshpass -p " + "Tr0ub4dor ssh me@x", "Tr0ub4dor"),
    "redis": ("redis-cli -h x -a " + "Tr0ub4dor ping", "Tr0ub4dor"),
    "docker": ('{"auths": {"x.example": {"auth": "' + "bWU6c2VjcmV0cGFzcw==" + '"}}}', "bWU6c2VjcmV0cGFzcw"),
    "kubeconfig": ("    client-key-data: " + A[:60], A[:60]),
    "kubeconfig token": ("    id-token: " + A[:40], A[:40]),
    "wireguard": ("PrivateKey = " + A[:43] + "=", A[:43]),
    "wireguard preshared": ("PresharedKey = " + A[:43] + "=", A[:43]),
    "ethereum": ("PRIVATE_KEY=0x" + H[:64], H[:64]),
    "ethereum in code": ('privateKey: "0x' + H[:64] + '"', H[:64]),
    "rails": ("RAILS_MASTER_KEY=" + H[:32], H[:32]),
    "rails base": ("SECRET_KEY_BASE: " + H[:64] * 2, H[:64]),
    "htpasswd apr1": ("me:$apr1$abcdefgh$" + A[:22], A[:22]),
    "htpasswd bcrypt": ("me:$2y$10$" + A[:53], A[:53]),
    "shadow sha512": ("root:$6$saltsalt$" + A[:86] + ":19000:0:99999:7:::", A[:86]),
    "shadow yescrypt": ("root:$y$j9T$saltsaltsaltsalt$" + A[:43] + ":19000:0:99999:7:::", A[:43]),
    "crates.io": ("cio" + A[:32], A[:32]),
    "nuget": ("oy2" + (H + H)[:43], H[:43]),
    "bitbucket": ("ATBB" + A[:32] + "ABCDEF01", A[:32]),
    "slack cookie": ("xoxd-" + A[:60], A[:60]),
    "google refresh": ("1//0g" + A[:60], A[:60]),
}


@pytest.mark.parametrize("name", L5)
def test_l5_shapes_that_were_missed_do_not_get_through(name: str) -> None:
    text, secret = L5[name]
    for around in (text, f"first line\n{text}\nnext line"):
        found = redacted(around)
        assert "[redacted" in found, found
        assert secret not in found, found
        assert secret[-8:] not in found, found


def test_there_are_canaries_of_sixty_formats_and_more() -> None:
    assert len(CANARIES) >= 60


@pytest.mark.parametrize("name", CANARIES)
def test_canary_does_not_get_through(name: str) -> None:
    canary = CANARIES[name]
    secret = max(canary.replace("\\n", "\n").replace("@", " ").replace('"', " ").split(), key=len)
    for text in (canary, f"see {canary}, please", f"export X='{canary}'\nnext line"):
        found = redacted(text)
        assert "[redacted" in found, found
        assert secret[-12:] not in found, found


@pytest.mark.parametrize(
    "text",
    [
        "def token(self) -> str:\n    return self._token",
        "password = getpass.getpass()",
        "the token is read from the environment: token = os.environ['TOKEN']",
        "sk-learn and sk-image are packages",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "https://example.org/a/b?c=d#e",
        "session k3v2abcdefghijklmnopqrstuv",
        "uuid 123e4567-e89b-12d3-a456-426614174000",
        "if secret: raise",
        "東京タワー",
        "machine learning: the login of a password manager",
        "localhost:8080:/app:ro",
        "a:b:c:d:e",
        "2026-11-18 12:30:00 INFO started",
        "curl -u $USER:$PASS https://x.example",
        "docker run -u 1000:1000 -p 8080:80 image",
        "git commit -u -p file",
        "mkdir -p build/output",
        "mysql -p < dump.sql",
        "zip -r out.zip folder",
        "mysql -P 3306 -h localhost",
        "ls -a folder1 && redis-cli ping",
        '{"auth": true, "author": "somebody"}',
        "PublicKey = " + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAbCdEfGhIjKl=",
        "PRIMARY_KEY=id",
        "private_key = load_key(path)",
        "cache_key: user_profile_page",
        "costs $1 to $6 per seat, or $2a month",
        "ciO is a name",
        "see https://x.example/1//0/path",
        "oy2 is short",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redacted(text) == text


def test_values_are_redacted_by_shape_and_by_key() -> None:
    found = redacted_value({"a": [CANARIES["github"]], "password": "hunter2!", "n": 3, "note": "fine"})
    assert found == {"a": ["[redacted GitHub token]"], "password": "[redacted]", "n": 3, "note": "fine"}


def test_a_secret_that_its_shape_gave_away_is_not_redacted_twice_by_its_name() -> None:
    assert redacted("run --token sk-" + A[:48]) == "run --token [redacted API key]"
