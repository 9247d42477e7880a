"""A process that talks with the local model: `python -m tests.acceptance.talker URL PROJECT SESSION MESSAGE ...`.

SESSION is `new` or an id, whose open turn is finished first. Every answer is one line of output, as JSON; the first
line is the session's id.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from outlast import Agent, AgentConfig
from outlast.app.settings import load_settings
from outlast.store import open_store

LONGEST = 160


def say(value: object) -> None:
    os.write(1, f"{json.dumps(value)}\n".encode())


async def main(url: str, project: Path, session: str, *messages: str) -> None:
    settings = load_settings(home=project / "home", project_root=project, model="local")
    config = AgentConfig(auto_context=False, max_output_tokens=LONGEST)
    with open_store(url) as store:
        agent = Agent(None, config, project, store=store, settings=settings)
        if session == "new":
            agent.session.persist()
        else:
            assert agent.resume_session(session)
        say(agent.session.session_id)
        if session != "new":
            say(await agent.resume())
        for message in messages:
            say(await agent.run(message))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
