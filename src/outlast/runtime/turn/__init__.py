"""The parts of one turn: model call, tool calls, approvals, sub-agents, recovery. Its loop is `turn_loop`."""
