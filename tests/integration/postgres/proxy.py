"""A proxy between store and server that cuts connections, or goes silent, at a byte of our choice."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from pathlib import Path

TO_SERVER, TO_CLIENT = "to server", "to client"


class Proxy:
    """Listens on a port of this machine. `cut_after` and `freeze_after` apply to the next bytes that pass, once."""

    def __init__(self, folder: Path, port: int = 5432) -> None:
        self._target = str(folder / f".s.PGSQL.{port}")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._mutex = threading.Lock()
        self._left: int | None = None
        self._direction = TO_SERVER
        self._freeze = False
        self._frozen: list[socket.socket] = []
        self.tripped = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, server_url: str) -> str:
        database = server_url.split("/")[3].split("?")[0]
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}?sslmode=disable&gssencmode=disable"

    def cut_after(self, count: int, direction: str) -> None:
        self._arm(count, direction, freeze=False)

    def freeze_after(self, count: int, direction: str) -> None:
        """Half open: nothing passes any more, and nobody is told."""
        self._arm(count, direction, freeze=True)

    def hide(self) -> None:
        """Let nobody in any more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # closing alone would let one more in
        self._listener.close()

    def close(self) -> None:
        self.hide()
        for end in self._frozen:
            end.close()

    def _arm(self, count: int, direction: str, *, freeze: bool) -> None:
        with self._mutex:
            self.tripped.clear()
            self._left, self._direction, self._freeze = count, direction, freeze

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                threading.Thread(target=self._carry, args=(client, server), daemon=True).start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        goes_on, frozen = True, False
        while goes_on:
            for end in select.select([client, server], [], [])[0]:
                other, direction = (server, TO_SERVER) if end is client else (client, TO_CLIENT)
                try:
                    data = end.recv(65536)
                    passing, trips = self._passing(data, direction)
                    other.sendall(passing)
                except OSError:
                    data, trips = b"", False
                frozen = trips and self._freeze
                goes_on = bool(data) and not trips
                if not goes_on:
                    break
        if frozen:
            self._frozen += [client, server]
        else:
            client.close()
            server.close()
        self.tripped.set()

    def _passing(self, data: bytes, direction: str) -> tuple[bytes, bool]:
        with self._mutex:
            if self._left is None or direction != self._direction:
                return data, False
            if len(data) <= self._left:
                self._left -= len(data)
                return data, False
            passing, self._left = data[: self._left], None
            return passing, True
