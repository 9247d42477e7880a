"""A session as a document for people: `markdown` and `html`. Lossless JSON lines: `outlast.app.integrity.exported`."""
