"""What stands before every answer: sizes, headers, and messages instead of tracebacks."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: bytes a request may bring
LARGEST = 1_000_000

#: our own pages run our own files only
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)

#: reports and letters bring their own style and script, and can reach nothing with them
CSP_ALONE = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "sandbox allow-scripts allow-modals"
)


class TooLarge(HTTPException):
    """A request brings more than is read; whoever reads it passes this on."""

    def __init__(self, largest: int):
        said = f"this request is larger than the desk reads ({largest:,} bytes): nothing was done"
        super().__init__(413, said)


class Guard:
    """Headers on every answer, and a limit on every request."""

    def __init__(self, app: ASGIApp, largest: int = LARGEST):
        self._app, self._largest = app, largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is small enough."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sizes = [value for name, value in scope["headers"] if name == b"content-length"]
        announced = max((int(s) if s.isdigit() else self._largest + 1 for s in sizes), default=0)
        read, began = 0, False

        async def limited() -> Message:
            nonlocal read
            if announced > self._largest:
                raise TooLarge(self._largest)
            message = await receive()
            read += len(message.get("body", b""))
            if read > self._largest:
                raise TooLarge(self._largest)
            return message

        async def guarded(message: Message) -> None:
            nonlocal began
            if message["type"] == "http.response.start":
                began = True
                _harden(MutableHeaders(scope=message), scope["path"])
            await send(message)

        try:
            await self._app(scope, limited, guarded)
        except TooLarge as refusal:
            if not began:
                await _too_large(guarded, refusal.detail)


def _harden(headers: MutableHeaders, path: str) -> None:
    headers.setdefault("Content-Security-Policy", CSP)
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "no-referrer"
    headers["X-Frame-Options"] = "DENY"
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
    headers["Cross-Origin-Resource-Policy"] = "same-origin"
    if not path.startswith("/static/"):
        headers["Cache-Control"] = "no-store"


async def _too_large(send: Send, said: str) -> None:
    start: dict[str, Any] = {
        "type": "http.response.start",
        "status": 413,
        "headers": [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")],
    }
    await send(start)
    await send({"type": "http.response.body", "body": said.encode()})
