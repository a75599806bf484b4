"""Starting the desk: a port, a token, and the address to open."""

from __future__ import annotations

import contextlib
import errno
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from threadpoolctl import threadpool_limits

from holdfast.desk.app import application
from holdfast.desk.home import Home
from holdfast.desk.service import Desk
from holdfast.desk.sources import CaseSource
from holdfast.errors import HoldfastError
from holdfast.ledger import Ledger

#: where the desk listens unless it is told otherwise
HOST, PORT = "127.0.0.1", 8765

#: seconds for what is being done when the desk is closed
PATIENCE = 60

#: names a machine calls itself by
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")


def home_of(ledger: str | None, home: Path | None) -> Path:
    """The desk's own folder: named, beside a ledger's file, or here."""
    if home is not None:
        return home
    if ledger is not None:
        books = Ledger(ledger)
        file = books.database.file
        books.close()
        if file is not None:
            return file.parent / f"{file.name}.desk"
    return Path("holdfast.desk")


def listening(host: str, port: int) -> socket.socket:
    """A port that is ours."""
    if not 0 <= port < 2**16:
        raise HoldfastError(f"⟦port⟧ must be from 0 to 65535, got {port}")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        raise HoldfastError(f"⟦host⟧: {host!r} is no address of this machine") from None
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as failure:
        made.close()
        if failure.errno == errno.EADDRINUSE:
            raise HoldfastError(
                f"port {port} is in use: is a desk open already? Name another with ⟦port⟧, or 0 "
                "for any that is free"
            ) from None
        raise HoldfastError(f"cannot listen on {host}, port {port}: {failure.strerror}") from None
    made.listen(1024)  # whoever opens the address at once waits a moment
    return made


def serve(
    ledger: str | None,
    case: Path | None,
    *,
    host: str = HOST,
    port: int = PORT,
    home: Path | None = None,
    names: list[str] | None = None,
    secure: bool = False,
    tell: Callable[[str], None],
) -> None:
    """Serve the desk until somebody stops it.

    Parameters
    ----------
    names : names it is called by in the browser beside the machine's own
    secure : bool
        Cookies go over TLS only: behind a proxy that speaks it.
    tell : callable
        Gets the address to open.
    """
    if ledger is not None:  # said before anything is opened
        books = Ledger(ledger)
        books.status()
        books.close()
    if case is not None:
        CaseSource(str(case)).stamp()
    place = Home(home_of(ledger, home))
    with listening(host, port) as door:
        place.create()
        desk = Desk(place, ledger, case)
        try:
            at = door.getsockname()[1]
            called = host if host not in ("0.0.0.0", "::") else "127.0.0.1"  # noqa: S104
            hosts = [*LOOPBACK, called, *(names or [])]
            app = application(desk, hosts, at, secure)
            shown = f"[{called}]" if ":" in called else called
            tell(f"http://{shown}:{at}/open?token={desk.access.ticket()}")
            with threadpool_limits(1):
                _until_stopped(app, door)
        finally:
            desk.close()


def _until_stopped(app: Any, door: socket.socket) -> None:
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=PATIENCE,
        timeout_keep_alive=30,
    )
    server = _Server(config)
    with _stopping(server):
        server.run(sockets=[door])


class _Server(uvicorn.Server):
    """A server that leaves signals to us: its own way raises them again after it has closed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def _stopping(server: uvicorn.Server) -> Iterator[None]:
    """Ctrl-C and the like close the desk; what is being done is finished first."""

    def stop(number: int, frame: Any) -> None:
        server.should_exit = True

    before = {}
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        with contextlib.suppress(ValueError, AttributeError):  # another thread, another system
            before[name] = signal.signal(getattr(signal, name), stop)
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
