"""Parts of one turn: model call, tool calls, approvals, sub-agents, recovery. The loop is `runtime.turn_loop`."""
