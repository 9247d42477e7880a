"""Runtime: everything from an admitted input to the end of its turn (service, runner, turn, tools, permissions).

Depends on `core` and the *ports* of `store` and `models`, never on an adapter. Time and sleep come through the
`Clock` port. Doors act through `runtime.service`; from other modules in here they import only value types.
"""
