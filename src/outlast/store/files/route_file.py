"""Routes: one file, `routes.json`, replaced as a whole."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from outlast.core.errors import InvalidInput, StoreUnavailable
from outlast.store.files import disk
from outlast.store.files.line import encode, whole

NAME = "routes.json"


class RoutesFile(Struct):
    routes: dict[str, str]


_routes = msgspec.json.Decoder(RoutesFile)


class RouteTable:
    """Never changed; `put` and `move` give new ones. `changed` tells that these are not what lies on the disk."""

    def __init__(self, leads: dict[str, str], *, changed: bool = False) -> None:
        self.leads = leads
        self.changed = changed

    @classmethod
    def load(cls, folder: Path) -> RouteTable:
        data = disk.read(folder / NAME)
        if data is None:
            return cls({})
        if not whole(data):
            raise StoreUnavailable(
                f"{folder / NAME} does not match its checksum; restore it from a backup or remove it"
            )
        return cls(_routes.decode(data).routes)

    def put(self, route: str, session_id: str | None) -> RouteTable:
        try:
            route.encode("utf-8")
        except UnicodeEncodeError:
            raise InvalidInput("a route must be valid Unicode text") from None
        leads = {name: to for name, to in self.leads.items() if name != route}
        if session_id is not None:
            leads[route] = session_id
        return RouteTable(leads, changed=True)

    def move(self, from_session_id: str, to_session_id: str | None) -> RouteTable:
        if from_session_id not in self.leads.values():
            return self
        leads = {name: to_session_id if to == from_session_id else to for name, to in self.leads.items()}
        return RouteTable({name: to for name, to in leads.items() if to is not None}, changed=True)

    def data(self) -> bytes:
        return encode(RoutesFile(self.leads))
