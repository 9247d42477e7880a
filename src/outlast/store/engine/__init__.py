"""What a commit does, for all adapters: encode, validate, apply. `commit.apply_commit` is the entry."""
