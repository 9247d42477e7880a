"""What a provider wants back unchanged, kept in a `ReasoningPart`.

Most often that is the signature of the reasoning itself. Some providers also sign calls and texts, or name their items;
such a proof stands as a reasoning part without text right before the part that it belongs to. Only the provider that
made a proof gets it back: the window strips those of others.
"""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.core.messages import ReasoningPart

_MARK = "outlast:"
_FORMER_MARK = "holdfast:"
"""What the mark was before the project was renamed; logs hold it for ever."""


class ProviderSignature(msgspec.Struct, frozen=True, omit_defaults=True):
    """`of_next`: it belongs to the part that follows."""

    id: str | None = None
    signature: str | None = None
    details: dict[str, Any] | None = None
    of_next: bool = False

    @property
    def empty(self) -> bool:
        return self.id is None and self.signature is None and not self.details


def packed(proof: ProviderSignature) -> str | None:
    """The proof as text. A signature that stands alone is kept as it is, so that it reads the same everywhere."""
    if proof.empty:
        return None
    if proof.signature is not None and proof.id is None and not proof.details and not proof.of_next:
        return proof.signature
    return _MARK + msgspec.json.encode(proof).decode()


def unpacked(signature: str | None) -> ProviderSignature:
    if signature is None or not signature.startswith((_MARK, _FORMER_MARK)):
        return ProviderSignature(signature=signature)
    try:
        return msgspec.json.decode(signature.partition(":")[2].encode(), type=ProviderSignature)
    except msgspec.DecodeError:
        return ProviderSignature()  # written by hand or by a later version: no proof is better than a wrong one


def plain(details: dict[str, Any] | None) -> dict[str, Any] | None:
    """Details as JSON can carry them; what it cannot is of no use to send back."""
    kept: dict[str, Any] = {}
    for name, value in (details or {}).items():
        try:
            kept[name] = msgspec.json.decode(msgspec.json.encode(value))
        except (TypeError, ValueError, msgspec.MsgspecError):
            continue
    return kept or None


def bearer(proof: ProviderSignature, provider: str) -> ReasoningPart | None:
    """A reasoning part without text that carries the proof of the part after it."""
    signature = packed(msgspec.structs.replace(proof, of_next=True))
    return None if signature is None else ReasoningPart(signature=signature, provider=provider)
