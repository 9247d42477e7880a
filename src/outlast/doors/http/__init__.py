"""The HTTP door: serves sessions as JSON and as event streams, and serves the web page that uses them.

    middleware     checks every request first, on the raw scope: host, token, origin, content type, size
    schemas        bodies of requests and responses; requests with unknown fields are refused
    routes         one file per resource; each action is durable before its response
    event_stream   a live session as Server-Sent Events
    server         the process of `outlast serve`: sockets, uvicorn, connection limits
    app            builds the ASGI application; `outlast.http.create_app` is the facade

The handlers run no turns: they admit messages, and the worker pool (`outlast.app.workers.worker_pool`) runs the turns.
"""
