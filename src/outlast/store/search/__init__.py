"""Full-text search: an index next to the store, brought up to date before each search, and disposable at any time.

`documents` defines what can be found, `index` how an index follows the log, `full_scan` searches without an index. The
indexes are part of the adapters: `outlast.store.sqlite.search_index`, `outlast.store.postgres.search_index`.
"""
