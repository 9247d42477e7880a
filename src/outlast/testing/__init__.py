"""Tools for authors of tests and of stores.

`StoreContract` is the test suite that every store passes; it needs pytest, which is imported on first use.
`ScriptedBackend` is a model that replies from a script; `Line` is a reply with a delay or a break in it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outlast.models.scripted import Line, ScriptedBackend
    from outlast.testing.contract import StoreContract

__all__ = ["Line", "ScriptedBackend", "StoreContract"]


def __getattr__(name: str) -> object:
    if name in ("Line", "ScriptedBackend"):
        from outlast.models import scripted

        return getattr(scripted, name)
    if name != "StoreContract":
        raise AttributeError(f"module 'outlast.testing' has no attribute '{name}'")
    try:
        import pytest
    except ModuleNotFoundError:
        raise ModuleNotFoundError("StoreContract needs pytest: pip install pytest") from None
    if "outlast.testing.contract" not in sys.modules:
        pytest.register_assert_rewrite("outlast.testing.contract")  # so that a failed assertion shows both sides
    from outlast.testing.contract import StoreContract

    return StoreContract
