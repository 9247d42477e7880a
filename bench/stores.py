"""One session in each of the stores that a developer would pick instead, all with the same four verbs.

`append` returns when the library says that the message is stored; `last` gives the newest texts, oldest first.
Each is used as its own documentation shows it, with its own defaults.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any, ClassVar, Protocol

SESSION = "a" * 26


class Peer(Protocol):
    name: ClassVar[str]
    needs: ClassVar[str]

    def __init__(self, place: str) -> None: ...
    def append(self, text: str) -> None: ...
    def last(self, count: int) -> list[str]: ...
    def close(self) -> None: ...


class Bare:
    name, needs = "bare SQLite, FULL", "folder"

    def __init__(self, place: str) -> None:
        import apsw

        from bench.figures.bare.sqlite import TABLE

        self.connection = apsw.Connection(f"{place}/bare.db")
        self.connection.set_busy_timeout(30_000)
        self.connection.execute("PRAGMA journal_mode=WAL").fetchall()
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.execute(TABLE)

    def append(self, text: str) -> None:
        body = json.dumps({"role": "user", "content": text}).encode()
        sql = "INSERT INTO messages SELECT ?, coalesce(max(n), 0) + 1, ? FROM messages WHERE session = ?"
        self.connection.execute(sql, (SESSION, body, SESSION))

    def last(self, count: int) -> list[str]:
        sql = "SELECT body FROM messages WHERE session = ? ORDER BY n DESC LIMIT ?"
        return [json.loads(body)["content"] for (body,) in self.connection.execute(sql, (SESSION, count))][::-1]

    def close(self) -> None:
        self.connection.close()


class Outlast:
    name, needs = "Outlast, SQLite", "folder"

    def __init__(self, place: str) -> None:
        from outlast import ConversationSession, Message, Role, open_store
        from outlast.core.errors import ConflictError

        self._message, self._user = Message, Role.USER
        self.store = open_store(self._url(place))
        loaded = ConversationSession.load(session_id=SESSION, store=self.store)
        self.session = loaded or ConversationSession(store=self.store, session_id=SESSION)
        if loaded is None:
            try:
                self.session.persist()
            except ConflictError:
                self.session = ConversationSession.load(session_id=SESSION, store=self.store) or self.session

    def _url(self, place: str) -> str:
        return f"sqlite:///{place}/outlast.db"

    def append(self, text: str) -> None:
        self.session.append(self._message(role=self._user, content=text))

    def last(self, count: int) -> list[str]:
        return [message.content for message in self.session.history(limit=count)]

    def close(self) -> None:
        self.store.close()


class OutlastPostgres(Outlast):
    name, needs = "Outlast, PostgreSQL", "database"

    def _url(self, place: str) -> str:
        return place


class JsonFile:
    name, needs = "JSON file rewritten whole, fsync", "folder"

    def __init__(self, place: str) -> None:
        self.path = Path(place) / "session.json"

    def append(self, text: str) -> None:
        messages = json.loads(self.path.read_text()) if self.path.exists() else []
        messages.append({"role": "user", "content": text})
        partial = self.path.with_suffix(f".{os.getpid()}")
        with partial.open("w") as file:
            json.dump(messages, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.path)

    def last(self, count: int) -> list[str]:
        return [message["content"] for message in json.loads(self.path.read_text())[-count:]]

    def close(self) -> None:
        pass


class LangGraph:
    """One message is one `update_state` of a graph whose state is the list of messages."""

    name, needs = "LangGraph, SQLite", "folder"

    def __init__(self, place: str) -> None:
        from langchain_core.messages import HumanMessage
        from langgraph.graph import END, START, MessagesState, StateGraph

        self._message = HumanMessage
        self._saver = self._open(place)
        saver = self._saver.__enter__()
        saver.setup()
        graph = StateGraph(MessagesState)
        graph.add_node("answer", lambda state: {"messages": []})
        graph.add_edge(START, "answer")
        graph.add_edge("answer", END)
        self.graph: Any = graph.compile(checkpointer=saver)
        self.config: Any = {"configurable": {"thread_id": SESSION}}

    def _open(self, place: str) -> Any:
        from langgraph.checkpoint.sqlite import SqliteSaver

        return SqliteSaver.from_conn_string(f"{place}/langgraph.db")

    def append(self, text: str) -> None:
        self.graph.update_state(self.config, {"messages": [self._message(text)]}, as_node="answer")

    def last(self, count: int) -> list[str]:
        return [message.content for message in self.graph.get_state(self.config).values["messages"][-count:]]

    def close(self) -> None:
        self._saver.__exit__(None, None, None)


class LangGraphPostgres(LangGraph):
    name, needs = "LangGraph, PostgreSQL", "database"

    def _open(self, place: str) -> Any:
        from langgraph.checkpoint.postgres import PostgresSaver

        return PostgresSaver.from_conn_string(place)


class OpenAIAgents:
    name, needs = "OpenAI Agents SDK, SQLiteSession", "folder"

    def __init__(self, place: str) -> None:
        from agents import SQLiteSession

        self.runner = asyncio.Runner()
        self.session: Any = SQLiteSession(SESSION, f"{place}/agents.db")

    def append(self, text: str) -> None:
        self.runner.run(self.session.add_items([{"role": "user", "content": text}]))

    def last(self, count: int) -> list[str]:
        return [item["content"] for item in self.runner.run(self.session.get_items(limit=count))]

    def close(self) -> None:
        self.session.close()
        self.runner.close()


class Adk:
    name, needs = "Google ADK, SqliteSessionService", "folder"

    def __init__(self, place: str) -> None:
        from google.adk.events import Event
        from google.adk.sessions.base_session_service import GetSessionConfig
        from google.adk.sessions.sqlite_session_service import SqliteSessionService
        from google.genai.types import Content, Part

        self._event, self._content, self._part, self._config = Event, Content, Part, GetSessionConfig
        self.runner = asyncio.Runner()
        self.service: Any = SqliteSessionService(f"{place}/adk.db")
        self.session: Any = self._get(0)
        if self.session is None:
            made = self.service.create_session(app_name="bench", user_id="local", session_id=SESSION)
            self.session = self.runner.run(made)

    def _get(self, count: int) -> Any:
        config = self._config(num_recent_events=count)
        found = self.service.get_session(app_name="bench", user_id="local", session_id=SESSION, config=config)
        return self.runner.run(found)

    def append(self, text: str) -> None:
        event = self._event(author="user", content=self._content(role="user", parts=[self._part(text=text)]))
        try:
            self.runner.run(self.service.append_event(self.session, event))
        except ValueError:
            self.session = self._get(0)  # somebody else wrote: it wants the session read again
            raise

    def last(self, count: int) -> list[str]:
        return [event.content.parts[0].text for event in self._get(count).events]

    def close(self) -> None:
        self.runner.close()


class Strands:
    name, needs = "Strands, FileSessionManager", "folder"

    def __init__(self, place: str) -> None:
        from strands.session.file_session_manager import FileSessionManager
        from strands.types.session import SessionAgent, SessionMessage

        self._message = SessionMessage
        self.manager: Any = FileSessionManager(session_id=SESSION, storage_dir=place)
        if self.manager.read_agent(SESSION, "agent") is None:
            agent = SessionAgent(agent_id="agent", state={}, conversation_manager_state={})
            self.manager.create_agent(SESSION, agent)
        self.count = len(self.manager.list_messages(SESSION, "agent"))

    def append(self, text: str) -> None:
        message = {"role": "user", "content": [{"text": text}]}
        self.manager.create_message(SESSION, "agent", self._message(message=message, message_id=self.count))
        self.count += 1

    def last(self, count: int) -> list[str]:
        from_here = max(0, self.count - count)
        found = self.manager.list_messages(SESSION, "agent", limit=count, offset=from_here)
        return [message.message["content"][0]["text"] for message in found]

    def close(self) -> None:
        pass


PEERS: dict[str, type[Peer]] = {
    "bare": Bare,
    "outlast": Outlast,
    "outlast-postgres": OutlastPostgres,
    "json": JsonFile,
    "openai-agents": OpenAIAgents,
    "adk": Adk,
    "strands": Strands,
    "langgraph": LangGraph,
    "langgraph-postgres": LangGraphPostgres,
}
