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
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redacted(text) == text


def test_values_are_redacted_by_shape_and_by_key() -> None:
    found = redacted_value({"a": [CANARIES["github"]], "password": "hunter2!", "n": 3, "note": "fine"})
    assert found == {"a": ["[redacted GitHub token]"], "password": "[redacted]", "n": 3, "note": "fine"}
