"""The route handlers, one file per resource."""
