"""Everything a door does to sessions or shows of them: create, update, delete, list, search, usage."""
