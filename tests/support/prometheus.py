"""Prometheus text, read as strictly as a scraper may: names, types, labels, numbers, and buckets that only grow."""

from __future__ import annotations

import re

_LABEL = r'[a-z_]+="(?:[^"\\\n]|\\.)*"'
_SAMPLE = re.compile(rf"([a-z_:][a-z0-9_:]*)(\{{{_LABEL}(?:,{_LABEL})*\}})? (\S+)")


def samples(text: str) -> dict[str, float]:
    """Every sample by its name with labels; fails on what is no exposition."""
    assert text.endswith("\n")
    types: dict[str, str] = {}
    found: dict[str, float] = {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"{name} comes twice"
            assert kind in ("counter", "gauge", "histogram")
            types[name] = kind
            continue
        match = _SAMPLE.fullmatch(line)
        assert match is not None, line
        family = re.sub("_(bucket|sum|count)$", "", match[1]) if match[1] not in types else match[1]
        assert family in types, f"{line} has no type"
        assert types[family] != "counter" or match[1].endswith("_total")
        sample = match[1] + (match[2] or "")
        assert sample not in found, f"{sample} comes twice"
        found[sample] = float(match[3])
    for name in (name for name, kind in types.items() if kind == "histogram"):
        buckets = [value for sample, value in found.items() if sample.startswith(f"{name}_bucket")]
        assert buckets == sorted(buckets)
        assert buckets[-1] == found[f"{name}_count"]
    return found
