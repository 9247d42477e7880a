"""A process that runs one bash call and says what it took: `python -m tests.faults.tool_owner BASE COMMAND HOW`."""

import asyncio
import json
import resource
import sys
from pathlib import Path

from tests.unit.runtime.tools.setting import Setting


def peak() -> int:
    """The most memory this process ever had. `getrusage` would count what its parent had before the exec."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


async def main() -> None:
    base, command, background = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "background"
    setting = Setting(base)
    await setting.run("bash", command="echo warm; seq 20000")
    before = peak()
    outcome = await setting.run("bash", command=command, timeout=600, background=background)
    if background:
        await asyncio.Event().wait()
    print(
        json.dumps(
            {
                "grown": peak() - before,
                "supervisor": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,
                "text": len(outcome.text),
                "tail": outcome.text[-20:],
                "bytes": outcome.facts["bytes"],
                "stored": outcome.whole_file.stat().st_size if outcome.whole_file else 0,
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main())
