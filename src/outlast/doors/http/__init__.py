"""The HTTP door: sessions as JSON and as streams of events, and the page that uses them.

    guard      every request passes it first, on the raw scope: host, token, origin, content type, size
    login      the one-time link that becomes a cookie
    wire       what goes in and out; unknown fields are refused
    routes     one file a noun; each verb is durable before its answer
    stream     a session as it happens (Server-Sent Events)
    app        the pieces put together; `outlast.http.create_app` is the facade

Nothing here runs a turn: a message is admitted, and the crew (`outlast.app.workers.worker_pool`) does the work.
"""
