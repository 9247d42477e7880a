"""Opens and writes to a store without permission, as somebody who is not root; prints what it was told.

    python -m tests.faults.no_permission STORE FOLDER folder|everything

`folder`: nothing can be created beside the files that are there. `everything`: those cannot be written either.
"""

import os
import sys
from pathlib import Path

from outlast.core.errors import OutlastError
from outlast.store import open_store
from tests.faults.stores import url_in
from tests.faults.witness import Try, new_id, writes_of

NOBODY = 65534


def locked(folder: Path, what: str) -> None:
    """Take the permissions away, and root's right to do without."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            path.chmod(0o500)
        elif what == "everything":
            path.chmod(0o400)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def main(kind: str, folder: Path, what: str) -> str:
    session_id, url = new_id(), url_in(kind, "", folder)
    with open_store(url) as store:
        store.commit(*writes_of(Try(mark="a", kind="create", session_id=session_id)))
    locked(folder, what)
    try:
        with open_store(url) as store:
            store.commit(*writes_of(Try(mark="b", kind="append", session_id=session_id)))
            store.commit(*writes_of(Try(mark="c", kind="create", session_id=new_id())))
    except OutlastError as error:
        return f"{type(error).__name__}: {error}"
    return "it was written"


if __name__ == "__main__":
    os.write(1, main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]).encode())
