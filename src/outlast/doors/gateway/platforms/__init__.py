"""One adapter per chat platform: Matrix, Telegram, signed webhooks. Adapters only translate."""
