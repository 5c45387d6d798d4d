"""Handle requests: each module serves one family of requests and registers its functions by request code.

Importing this package registers all of them; `BROKER_HANDLERS` and `NAME_SERVER_HANDLERS` are the two registries.
"""

import importlib
import pkgutil

from ..registry import BROKER_HANDLERS, NAME_SERVER_HANDLERS

__all__ = ["BROKER_HANDLERS", "NAME_SERVER_HANDLERS"]

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
