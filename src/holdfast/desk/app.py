"""The desk as an application: pages, API, the door, and what is said when something is wrong."""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import AsyncIterator
from functools import cache
from importlib import resources
from typing import Annotated, Any

import anyio.to_thread
from fastapi import FastAPI, Form, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from holdfast.desk import api, pages
from holdfast.desk.access import LONGEST, FirstPassword, Refused
from holdfast.desk.api import COOKIE, TheDesk
from holdfast.desk.guard import Guard
from holdfast.desk.service import Desk
from holdfast.errors import HoldfastError

#: our own files, by name
STATIC = {
    "htmx.min.js": "text/javascript",
    "desk.js": "text/javascript",
    "style.css": "text/css",
    "icon.svg": "image/svg+xml",
}


def application(
    desk: Desk, hosts: list[str] | None = None, port: int = 0, secure: bool = False
) -> FastAPI:
    """The application of a desk.

    Parameters
    ----------
    hosts : names the desk may be called by; any by default
    port : int
        Tells the cookies of two desks on one machine apart.
    secure : bool
        Whether cookies go over TLS only: behind a proxy that speaks it.
    """
    from importlib.metadata import version

    app = FastAPI(
        title="Holdfast desk",
        version=version("holdfast"),
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=_few_threads,
    )
    app.state.desk, app.state.secure = desk, secure
    app.state.cookie = f"{COOKIE}_{port}"
    app.include_router(api.router)
    app.include_router(pages.router)
    _door(app)
    app.add_exception_handler(HoldfastError, _refused)
    app.add_exception_handler(RequestValidationError, _misread)
    app.add_exception_handler(HTTPException, _not_there)
    app.add_exception_handler(Exception, _fault)
    if hosts is not None:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    app.add_middleware(Guard)
    return app


#: questions worked on at the same time: with more, threads mostly wait for each other
THREADS = 8


@contextlib.asynccontextmanager
async def _few_threads(app: FastAPI) -> AsyncIterator[None]:
    anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
    yield


def _door(app: FastAPI) -> None:
    """Coming in and going out, and what everybody may have."""

    @app.get("/sign-in", include_in_schema=False)
    def sign_in_page(request: Request, desk: TheDesk, said: str = "") -> HTMLResponse:
        return pages.shown(request, "sign_in.html", None, said=said, any=bool(desk.access.users()))

    @app.post("/sign-in", include_in_schema=False)
    def sign_in(
        request: Request,
        desk: TheDesk,
        name: Annotated[str, Form(max_length=200)],
        password: Annotated[str, Form(max_length=500)],
    ) -> Response:
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Refused("sign in on the desk's own page")
        try:
            cookie = desk.access.sign_in(name.strip(), password)
        except Refused as refusal:
            return pages.shown(
                request, "sign_in.html", None, refusal.status, said=str(refusal), any=True
            )
        return _come_in(request, desk, cookie)

    @app.get("/open", include_in_schema=False)
    def open_desk(
        request: Request, desk: TheDesk, token: Annotated[str, Query(max_length=200)] = ""
    ) -> Response:
        return _come_in(request, desk, desk.access.redeem(token, _keeper()))

    @app.post("/sign-out", include_in_schema=False, dependencies=pages.FORM)
    def sign_out(request: Request, desk: TheDesk) -> Response:
        desk.access.sign_out(request.cookies.get(app.state.cookie, ""))
        answer = pages.gone_to("/sign-in", said="you have signed out")
        answer.delete_cookie(app.state.cookie, path="/")
        return answer

    @app.get("/api/v1/openapi.json", include_in_schema=False)
    def openapi(visitor: api.Viewer) -> Any:
        return app.openapi()

    @app.get("/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        if name not in STATIC:
            raise HTTPException(404)
        return Response(
            _static(name),
            media_type=STATIC[name],
            headers={"Cache-Control": "public, max-age=3600"},
        )


def _keeper() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "keeper"


def _come_in(request: Request, desk: Desk, cookie: str) -> RedirectResponse:
    visitor = desk.access.visitor(cookie)
    assert visitor is not None
    desk.welcome(visitor)
    answer = pages.gone_to("/")
    answer.set_cookie(
        request.app.state.cookie,
        cookie,
        max_age=int(LONGEST),
        httponly=True,
        samesite="strict",
        secure=request.app.state.secure,
        path="/",
    )
    return answer


@cache
def _static(name: str) -> bytes:
    """A file of our own; the pages have the report's style and a little more."""
    files = resources.files("holdfast.desk") / "static"
    found = (files / name).read_bytes()
    if name == "style.css":
        report = resources.files("holdfast.report") / "templates" / "style.css"
        found = report.read_bytes() + found
    return found


# what is said when something is wrong


def _said(request: Request, status: int, said: str) -> Response:
    """A message, as JSON for programs and as a page for people."""
    if request.scope["path"].startswith("/api/"):
        return JSONResponse({"error": said}, status)
    if request.headers.get("HX-Request"):
        return pages.shown(request, "trouble.html", None, status, said=said)
    visitor = None
    with contextlib.suppress(HoldfastError):
        visitor = api.visitor_of(request, request.app.state.desk)
    return pages.shown(request, "wrong.html", visitor, status, said=said)


def _refused(request: Request, failure: Any) -> Response:
    said = failure.worded(lambda name: name.replace("_", " "))
    status = failure.status if isinstance(failure, Refused) else 409
    if "is being written by somebody else" in said:
        status = 503
    page = not request.scope["path"].startswith("/api/")
    if isinstance(failure, FirstPassword) and page:
        return pages.gone_to("/account", said="choose a password of your own first")
    if isinstance(failure, Refused) and failure.status == 401 and page:
        if request.headers.get("HX-Request"):
            return Response(status_code=401, headers={"HX-Redirect": "/sign-in"})
        return pages.gone_to("/sign-in", said=None if request.scope["path"] == "/" else said)
    return _said(request, status, said)


def _misread(request: Request, failure: Any) -> Response:
    """What cannot be read: where, and why; never what it was."""
    wrong = [
        f"{'.'.join(str(part) for part in each['loc'][1:]) or each['loc'][0]}: {each['msg']}"
        for each in failure.errors()[:3]
    ]
    return _said(request, 422, f"cannot be read: {'; '.join(wrong)}. Nothing was done")


def _not_there(request: Request, failure: Any) -> Response:
    words = {404: "there is no such page", 405: "this page cannot be asked that way"}
    return _said(request, failure.status_code, words.get(failure.status_code, str(failure.detail)))


def _fault(request: Request, failure: Any) -> Response:
    kind = type(failure).__name__
    return _said(
        request, 500, f"this should not have happened ({kind}): a fault of Holdfast's. Try again"
    )
