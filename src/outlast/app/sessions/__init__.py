"""Session operations shared by all doors: create, update, delete, list, search, usage."""
