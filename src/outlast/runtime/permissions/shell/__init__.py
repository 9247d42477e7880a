"""Shell commands: two parsers that must agree, and what is known of the programs that a command runs."""
