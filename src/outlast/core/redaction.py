"""Removes secrets of known shapes from a text before it leaves the machine.

Keys with a provider's distinctive shape are found anywhere; values that are secret only by their name (a password, a
token) are found after that name. A secret without either cannot be found: this is a safety net, not a guarantee.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

_B64 = r"[A-Za-z0-9+/]"
_ID = r"[A-Za-z0-9_-]"

SHAPES: tuple[tuple[str, str], ...] = (
    (
        "private key",
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    ),
    ("private key", r"PuTTY-User-Key-File-[23]:.*?(?:Private-MAC: [0-9a-f]+|\Z)"),
    ("age key", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    ("JWT", rf"eyJ{_ID}{{8,400}}\.eyJ{_ID}{{8,8000}}\.{_ID}*"),
    ("Anthropic key", rf"sk-ant-{_ID}{{20,}}"),
    ("OpenRouter key", rf"sk-or-{_ID}{{20,}}"),
    ("API key", rf"sk-(?:proj-|svcacct-|admin-|None-)?{_ID}{{20,}}"),
    ("Google key", rf"AIza{_ID}{{35}}"),
    ("Google token", rf"ya29\.{_ID}{{20,}}"),
    ("Google refresh token", rf"1//0[0-9A-Za-z]?{_ID}{{30,}}"),
    ("Google secret", rf"GOCSPX-{_ID}{{20,}}"),
    ("AWS key id", r"(?<![A-Z0-9])(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA|AGPA|ANPA)[A-Z2-7]{16}(?![A-Z0-9])"),
    ("AWS session token", rf"(?:FwoG|IQoJ){_B64}{{60,}}={{0,2}}"),
    ("GitHub token", r"(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})"),
    ("GitLab token", rf"(?:glpat|gldt|glrt|glcbt|glptt|glft|glsoat|glagent|gloas)-{_ID}{{20,}}"),
    ("Slack token", r"xox[abdeoprs](?:\.xox[bp])?-[A-Za-z0-9%/+=-]{10,}"),
    ("Slack token", r"xapp-\d-[A-Za-z0-9-]{20,}"),
    ("Slack webhook", r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,}"),
    ("Discord webhook", r"https://(?:ptb\.|canary\.)?discord(?:app)?\.com/api/webhooks/\d+/[A-Za-z0-9_-]{20,}"),
    ("Discord token", rf"[MNO]{_ID}{{23,27}}\.{_ID}{{6}}\.{_ID}{{27,}}"),
    ("Telegram token", rf"\d{{8,10}}:{_ID}{{35}}(?![A-Za-z0-9_-])"),
    ("Stripe key", r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{20,})"),
    ("Twilio key", r"SK[0-9a-f]{32}(?![0-9a-f])"),
    ("SendGrid key", rf"SG\.{_ID}{{16,}}\.{_ID}{{16,}}"),
    ("Mailgun key", r"key-[0-9a-f]{32}(?![0-9a-f])"),
    ("Mailchimp key", r"(?<![0-9a-f])[0-9a-f]{32}-us\d{1,2}(?!\d)"),
    ("npm token", r"npm_[A-Za-z0-9]{36}"),
    ("crates.io token", r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    ("NuGet key", r"oy2[a-z0-9]{43}(?![a-z0-9])"),
    ("PyPI token", rf"pypi-AgE{_ID}{{50,}}"),
    ("Docker token", rf"dckr_(?:pat|oat)_{_ID}{{20,}}"),
    ("RubyGems key", r"rubygems_[0-9a-f]{48}"),
    ("Hugging Face token", r"(?:hf|api_org)_[A-Za-z]{30,}"),
    ("Replicate token", r"r8_[A-Za-z0-9]{37,}"),
    ("Groq key", r"gsk_[A-Za-z0-9]{40,}"),
    ("xAI key", r"xai-[A-Za-z0-9]{40,}"),
    ("Perplexity key", r"pplx-[A-Za-z0-9]{40,}"),
    ("NVIDIA key", rf"nvapi-{_ID}{{40,}}"),
    ("Cerebras key", r"csk-[a-z0-9]{40,}"),
    ("Fireworks key", r"fw_[A-Za-z0-9]{22,}"),
    ("Voyage key", rf"pa-{_ID}{{40,}}"),
    ("Tavily key", rf"tvly-{_ID}{{20,}}"),
    ("LangSmith key", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    ("Databricks token", r"dapi[0-9a-f]{32}(?:-\d)?"),
    ("DigitalOcean token", r"do[opr]_v1_[0-9a-f]{64}"),
    ("Heroku key", rf"HRKU-{_ID}{{30,}}"),
    ("Shopify token", r"shp(?:at|ss|ca|pa)_[0-9a-fA-F]{32}"),
    ("Square token", rf"sq0(?:atp|csp|idp)-{_ID}{{22,}}"),
    ("Linear key", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    ("Notion token", r"(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43})"),
    ("Figma token", rf"figd_{_ID}{{30,}}"),
    ("Airtable token", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    ("Atlassian token", rf"AT(?:ATT|CTT)3{_ID}{{20,}}=?[0-9A-F]*"),
    ("Bitbucket token", rf"ATBB{_ID}{{24,}}=?[0-9A-F]*"),
    ("Doppler token", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{30,}"),
    ("Vault token", rf"hv[sbr]\.{_ID}{{20,}}"),
    ("Terraform token", rf"[A-Za-z0-9]{{14}}\.atlasv1\.{_ID}{{60,}}"),
    ("Grafana token", rf"(?:glc_{_B64}{{30,}}={{0,2}}|glsa_[A-Za-z0-9]{{32}}_[0-9a-f]{{8}})"),
    ("Sentry token", r"sntry[su]_[A-Za-z0-9+/=_-]{40,}"),
    ("New Relic key", r"NRAK-[A-Z0-9]{27}"),
    ("Postman key", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    ("Pulumi token", r"pul-[0-9a-f]{40}"),
    ("PlanetScale token", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,}"),
    ("Supabase key", rf"(?:sbp_[0-9a-f]{{40}}|sb_secret_{_ID}{{20,}})"),
    ("Netlify token", r"nf[pcou]_[A-Za-z0-9]{36,}"),
    ("Fly token", r"(?<![A-Za-z0-9_])fm[12]_[A-Za-z0-9+/=_,-]{60,}"),
    ("Tailscale key", r"tskey-(?:auth|api|client|scim|webhook)-[A-Za-z0-9-]{16,}"),
    ("Dropbox token", rf"sl\.(?:u\.)?{_ID}{{100,}}"),
    ("Azure secret", rf"(?:AccountKey|SharedAccessKey)={_B64}{{40,}}={{0,2}}"),
    ("Azure secret", r"(?<=[?&]sig=)[A-Za-z0-9%+/=]{40,}"),
    ("Azure secret", rf"{_ID}{{3}}\dQ~[A-Za-z0-9_~.-]{{31,34}}"),
    ("PagerDuty key", r"pdus\+_0X[A-Za-z0-9_]{30,}"),
    ("password hash", r"\$(?:apr1|1|5|6|y|gy|7)\$[A-Za-z0-9./$=,-]{20,}"),
    ("password hash", r"\$2[abxy]\$\d\d\$[A-Za-z0-9./]{53}"),
    ("password hash", r"\{SSHA\}[A-Za-z0-9+/]{24,}={0,2}"),
    ("access token", rf"hft_{_ID}{{32,}}"),
)
"""Name and pattern of each kind of secret. Specific patterns come first: the first match gives the name."""

_SHAPES = [(name, re.compile(shape, re.DOTALL)) for name, shape in SHAPES]
_INSIDE = re.compile(r"[A-Za-z0-9_-]")
"""A match after one of these characters is part of a longer word. Checked after the match, which is much faster."""

_IN_URL = re.compile(r"(?P<before>://[^\s/:@'\"<>]{0,200}:)(?P<secret>[^\s/@'\"<>]{1,400})(?=@)")
_HEADER = re.compile(
    r"(?P<before>\b(?:Proxy-)?Authorization\\?[\"']?\s*[:=]\s*\\?[\"']?\s*(?:Bearer|Basic|Token|ApiKey|Digest)\s+)"
    r"(?P<secret>[A-Za-z0-9._~+/=-]{6,})",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?P<before>\bBearer\s+)(?P<secret>[A-Za-z0-9._~+/=-]{16,})", re.IGNORECASE)
_COOKIE = re.compile(
    r"(?P<before>\b(?:Set-)?Cookie\\?[\"']?\s*:\s*\\?[\"']?)(?P<secret>[^\s\"'\\][^\r\n\"'\\]{8,})", re.IGNORECASE
)
_NETRC = re.compile(
    r"(?P<before>\bmachine\s+\S{1,255}\s+login\s+\S{1,255}\s+password\s+)(?P<secret>\S{1,400})", re.IGNORECASE
)
_PGPASS = re.compile(
    r"(?m)(?P<before>^(?:[\w.-]{1,255}|\*):(?:\d{1,5}|\*):[^:\s]{1,100}:[^:\s]{1,100}:)(?P<secret>[^\s:]{4,200})$"
)
_USER_FLAG = re.compile(
    r"(?P<before>\b(?:curl|wget|http|https|xh|lftp|smbclient|mosquitto_pub|mosquitto_sub)\b[^\n|;&]{0,400}?\s"
    r"(?:-u|--user|-U|--proxy-user)[ =]?[\"']?[^\s:\"'$]{1,100}:)(?P<secret>[^\s\"'$]{1,200})"
)
_SHORT_FLAG = re.compile(
    r"(?P<before>\b(?:(?:mysql|mysqldump|mysqladmin|mariadb|7z|7za)\b[^\n|;&]{0,200}?\s-p"
    r"|sshpass\s+-p\s*|(?:mongo|mongosh|docker login)\b[^\n|;&]{0,200}?\s-p\s+"
    r"|redis-cli\b[^\n|;&]{0,200}?\s-a\s+|(?:zip|unzip)\b[^\n|;&]{0,200}?\s-P\s*)[\"']?)"
    r"(?P<secret>[^\s\"'=$<-][^\s\"'$]{3,200})"
)
_DOCKER_AUTH = re.compile(
    r"(?P<before>\\?[\"'](?:auth|identitytoken|registrytoken)\\?[\"']\s*:\s*\\?[\"'])(?P<secret>[A-Za-z0-9+/=._-]{8,})",
    re.IGNORECASE,
)
_KUBECONFIG = re.compile(
    r"(?P<before>\b(?:client-key-data|client-certificate-data|certificate-authority-data|id-token|refresh-token):\s*"
    r"[\"']?)(?P<secret>[A-Za-z0-9+/=._-]{16,})"
)
_WIREGUARD = re.compile(r"(?P<before>\b(?:PrivateKey|PresharedKey)\s*=\s*)(?P<secret>[A-Za-z0-9+/]{42,43}=)")
_HEX_KEY = re.compile(
    r"(?P<before>\b\w*(?:PRIVATE_?KEY|MASTER_?KEY|ENCRYPTION_?KEY|SIGNING_?KEY|SECRET_KEY_BASE|MNEMONIC_KEY)"
    r"\\?[\"']?\s*[:=]\s*\\?[\"']?)(?P<secret>(?:0x)?[0-9a-fA-F]{32,128})(?![0-9a-fA-F])",
    re.IGNORECASE,
)
_NAME = (
    r"(?P<before>(?:api[_-]?key|apikey|x-api-key|secret(?:[_-]?(?:access[_-]?)?key)?|"
    r"client[_-]?secret|access[_-]?token|auth[_-]?token|refresh[_-]?token|session[_-]?token|private[_-]?token|token|"
    r"password|passwd|passphrase|pwd|credentials?)\\?[\"']?\s*(?:=>|:=|[:=])\s*)"
)
_QUOTED = re.compile(_NAME + r"(?P<quote>\\?[\"'])(?P<secret>[^\"'\\\s]{6,})(?=\\?[\"'])", re.IGNORECASE)
_BARE = re.compile(
    _NAME + r"(?P<secret>(?=[^\s\"'(){}<>\[\],;]{0,100}?\d)(?=[^\s\"'(){}<>\[\],;]{0,100}?[A-Za-z])"
    r"[^\s\"'(){}<>\[\],;$]{10,400})",
    re.IGNORECASE,
)
_FLAG = re.compile(
    r"(?P<before>(?<!\S)--?(?:password|passwd|token|api-key|secret)[= ])(?P<secret>[^\s\"']{6,})", re.IGNORECASE
)
_NAMES = ("key", "secret", "token", "passw", "passphrase", "pwd", "credential")
_AFTER_NAME = (
    (("://",), _IN_URL),
    (("authorization",), _HEADER),
    (("bearer",), _BEARER),
    (("cookie",), _COOKIE),
    (_NAMES, _QUOTED),
    (_NAMES, _BARE),
    (_NAMES, _FLAG),
    (("machine",), _NETRC),
    ((":5432:", ":*:", ":6432:", ":5433:"), _PGPASS),
    ((" -u", " --user", " -u'", " --proxy-user"), _USER_FLAG),
    ((" -p", " -a "), _SHORT_FLAG),
    (('auth"', "auth'", 'token"', 'auth\\"'), _DOCKER_AUTH),
    (("-data:", "-token:"), _KUBECONFIG),
    (("privatekey", "presharedkey"), _WIREGUARD),
    (("key", "mnemonic"), _HEX_KEY),
)
"""Each pattern with hint words; it runs only if the text contains one of them."""


def redacted(text: str) -> str:
    """Replace every recognised secret in the text by `[redacted ...]`."""
    for name, shape in _SHAPES:
        text = shape.sub(lambda found, name=name: _by_shape(found, name), text)
    lowered = text.lower()
    for hints, pattern in _AFTER_NAME:
        if any(hint in lowered for hint in hints):
            text = pattern.sub(_after_name, text)
    return text


def redacted_value(value: Any) -> Any:
    """Redact every text in nested lists and dicts, and each text whose key marks it as a secret."""
    return mapped(value, redacted, _is_secret)


def mapped(value: Any, change: Callable[[str], str], hidden: Callable[[str], bool] = lambda _: False) -> Any:
    """Apply `change` to every text in nested lists and dicts; texts under `hidden` keys are redacted."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [mapped(one, change, hidden) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {
            change(str(key)): "[redacted]" if isinstance(one, str) and hidden(str(key)) else mapped(one, change, hidden)
            for key, one in cast("dict[Any, Any]", value).items()
        }
    return value


_SECRET_KEY = re.compile(_NAME + "$", re.IGNORECASE)


def _is_secret(key: str) -> bool:
    return _SECRET_KEY.search(f"{key}=") is not None


def _by_shape(found: re.Match[str], name: str) -> str:
    start = found.start()
    if start and _INSIDE.match(found.string, start - 1) and not found[0].startswith("-----"):
        return found[0]
    return f"[redacted {name}]"


def _after_name(found: re.Match[str]) -> str:
    secret = found["secret"]
    if secret.startswith("[redacted"):
        return found[0]
    quote = found.groupdict().get("quote") or ""
    return f"{found['before']}{quote}[redacted]"
