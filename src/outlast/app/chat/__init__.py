"""Chats of the gateway: routes, sessions as a chat sees them, deliveries, pairing."""
