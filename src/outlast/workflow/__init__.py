"""The guided way to work: routing, lanes, definition of done, completion checks."""
