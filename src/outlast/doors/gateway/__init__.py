"""The gateway: chat rooms whose sessions survive everything. What it promises is in `docs/gateway.md`."""
