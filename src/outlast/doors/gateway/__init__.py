"""The gateway: connects chats to durable sessions. Its guarantees are described in `docs/gateway.md`."""
