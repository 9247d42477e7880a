"""Gateway chats: routes, sessions as a chat sees them, deliveries, pairing."""
