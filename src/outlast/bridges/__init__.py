"""Other frameworks and file formats over the same log: langgraph, openai_agents, adk, importers, exporters.

A bridge knows `app`, `runtime.service`, `core` and the store port, never a store adapter.
"""
