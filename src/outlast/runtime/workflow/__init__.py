"""How the agent works: routing, briefs, plans, ledger, definition of done, completion. Pure functions over values."""
