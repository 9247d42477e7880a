"""Live events: the feed of one session, and the broadcast to many HTTP followers."""
