"""Whether a tool call may run: modes, rules, paths, shell commands. Pure but for the looking at paths."""
