"""The server process of `outlast serve`: sockets, uvicorn, the HTTP/1 protocol with bounds."""
