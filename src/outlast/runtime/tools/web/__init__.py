"""One HTTP GET to a checked address, and the text of an HTML page."""
