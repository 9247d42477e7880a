"""Provider data that must be sent back unchanged, stored in a `ReasoningPart`.

Usually it is the signature of the reasoning itself. Some providers also sign calls and texts, or give their items ids;
such a proof is stored as a reasoning part without text, right before the part it belongs to. A proof is sent only to
the provider that made it: the window strips the others.
"""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.core.messages import ReasoningPart

_MARK = "outlast:"
_FORMER_MARK = "holdfast:"
"""The mark before the project was renamed; existing logs contain it."""


class ProviderSignature(msgspec.Struct, frozen=True, omit_defaults=True):
    """`of_next`: the proof belongs to the next part."""

    id: str | None = None
    signature: str | None = None
    details: dict[str, Any] | None = None
    of_next: bool = False

    @property
    def empty(self) -> bool:
        return self.id is None and self.signature is None and not self.details


def packed(proof: ProviderSignature) -> str | None:
    """Encode the proof as text; None if it is empty. A plain signature is kept unchanged."""
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
        return ProviderSignature()  # written by hand or by a later version: no proof is better than a wrong proof


def plain(details: dict[str, Any] | None) -> dict[str, Any] | None:
    """Keep the details that JSON can hold; others cannot be sent back."""
    kept: dict[str, Any] = {}
    for name, value in (details or {}).items():
        try:
            kept[name] = msgspec.json.decode(msgspec.json.encode(value))
        except (TypeError, ValueError, msgspec.MsgspecError):
            continue
    return kept or None


def bearer(proof: ProviderSignature, provider: str) -> ReasoningPart | None:
    """Return a reasoning part without text that carries the proof of the next part; None if the proof is empty."""
    signature = packed(msgspec.structs.replace(proof, of_next=True))
    return None if signature is None else ReasoningPart(signature=signature, provider=provider)
