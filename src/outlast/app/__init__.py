"""Settings and wiring: the one place that knows every layer below it.

`settings` is the only reader of the environment; everything else is handed what it needs.
"""

from outlast.app.settings import Settings, load_settings
from outlast.runtime.permissions.mode import PermissionMode

__all__ = ["PermissionMode", "Settings", "load_settings"]
