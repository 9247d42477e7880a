"""What happens between an admitted input and the end of its turn: service, runner, turn, tools, permissions.

Knows `core` and the *ports* of `store` and `models`, never an adapter; time, sleep and scheduling come through a
clock port. Doors may call `runtime.service` and nothing else in here.
"""
