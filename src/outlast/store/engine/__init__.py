"""What a commit does, for all adapters: validate, encode, apply. `commit.apply_commit` is the entry point."""
