"""The fixture of the tools' unit tests, for those that start processes or open sockets."""

from tests.unit.runtime.tools.conftest import setting

__all__ = ["setting"]
