"""Full-text search: a projection beside the store, brought up to date before it answers, and thrown away at will.

`documents` says what can be found, `catching_up` how a shelf follows the log, `scanning` how to do without a shelf. The
shelves lie beside their adapters: `outlast.store.sqlite.search_index`, `outlast.store.postgres.search_index`.
"""
