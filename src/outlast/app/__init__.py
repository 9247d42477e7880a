"""Settings and wiring: the only layer that knows all layers below it.

Only `settings` reads the environment; other modules receive what they need as arguments.
"""

from outlast.app.settings import Settings, load_settings
from outlast.runtime.permissions.mode import PermissionMode

__all__ = ["PermissionMode", "Settings", "load_settings"]
