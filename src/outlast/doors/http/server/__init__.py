"""The server process of `outlast serve`: sockets, uvicorn, and the HTTP/1 protocol with limits."""
