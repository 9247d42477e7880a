"""Where users come in: cli, repl, http, web, gateway, acp.

A door admits input to the log, durably, and only then answers its user. It knows `app`, `runtime.service` and
`core`. Doors are the only modules that print.
"""
