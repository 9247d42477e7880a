"""One adapter per chat platform: Matrix, Telegram, signed webhooks. They only translate."""
