"""A session as a document for people: `markdown` and `html`. Lossless JSON lines: `holdfast.app.integrity.exported`."""
