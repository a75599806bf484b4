"""The desk: the ledger and the what-if question in a browser.

Every page is a template filled with what the JSON API answers; roles, tokens and what is logged are
the same for both. ``holdfast serve`` starts it.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError

try:
    import argon2 as _argon2  # noqa: F401 (said in words where they are missing)
    import fastapi as _fastapi  # noqa: F401
    import python_multipart as _multipart  # noqa: F401
    import sqlalchemy as _sqlalchemy  # noqa: F401
    import uvicorn as _uvicorn  # noqa: F401
except ModuleNotFoundError:
    raise HoldfastError(
        "the desk needs FastAPI, uvicorn and argon2: pip install 'holdfast[web]'"
    ) from None
