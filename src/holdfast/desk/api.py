"""The JSON API: the same questions the pages ask, for programs with a token."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field

from holdfast.desk.access import FirstPassword, Refused, Visitor
from holdfast.desk.service import KEPT_BACK, Desk, Overview
from holdfast.desk.whatif import MOST, Answer, WhatIf
from holdfast.errors import HoldfastError

router = APIRouter(prefix="/api/v1")

#: what the cookie of a visit is called
COOKIE = "holdfast_desk"

SAFE = ("GET", "HEAD")


def desk_of(request: Request) -> Desk:
    """The desk that was asked."""
    found: Desk = request.app.state.desk
    return found


def visitor_of(request: Request, desk: Annotated[Desk, Depends(desk_of)]) -> Visitor:
    """Whoever asks: a program by its token, a person by the cookie of a visit.

    A change asked for with a cookie needs the visit's own CSRF token beside it, in the header
    ``X-CSRF-Token`` or, from forms, the field ``csrf`` (which pages check).
    """
    said = request.headers.get("authorization", "")
    if said:
        kind, _, token = said.partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            raise Refused("send the token as: Authorization: Bearer TOKEN", 401)
        return desk.access.client(token.strip())
    cookie = request.cookies.get(request.app.state.cookie)
    found = None if cookie is None else desk.access.visitor(cookie)
    if found is None:
        raise Refused("nobody is signed in, or the visit is over: sign in", 401)
    if request.method not in SAFE and request.scope["path"].startswith("/api/"):
        refuse_forged(found, request.headers.get("x-csrf-token", ""))
    return found


def refuse_forged(visitor: Visitor, token: str) -> None:
    """Refuse what another page may have sent in somebody's name."""
    if visitor.csrf is None or not secrets.compare_digest(
        visitor.csrf.encode(), token.encode("utf-8", "surrogatepass")
    ):
        raise Refused("this form is not of your visit, or too old: load the page again")


def needs(role: str) -> Callable[..., Visitor]:
    """Somebody with at least a role."""

    def checked(visitor: Annotated[Visitor, Depends(visitor_of)], request: Request) -> Visitor:
        if not visitor.may(role):
            raise Refused(f"this is for the role {role!r}, and yours is {visitor.role!r}")
        if visitor.must_change and request.scope["path"] not in ("/account", "/sign-out"):
            raise FirstPassword("choose a password of your own first: /account")
        return visitor

    return checked


TheDesk = Annotated[Desk, Depends(desk_of)]
Viewer = Annotated[Visitor, Depends(needs("viewer"))]
Analyst = Annotated[Visitor, Depends(needs("analyst"))]
Officer = Annotated[Visitor, Depends(needs("officer"))]
Admin = Annotated[Visitor, Depends(needs("admin"))]

#: numbers of requests and letters: what a database can hold
Number = Annotated[int, Field(ge=1, lt=2**31)]


class Ids(BaseModel):
    """Requests to be written down."""

    ids: list[str] = Field(min_length=1, max_length=10_000)
    received: str | None = None
    unknown: bool = False


class RequestNumbers(BaseModel):
    """Some requests, or some letters, by number."""

    numbers: list[Annotated[Number, Field(strict=True)]] = Field(min_length=1, max_length=10_000)


class Reason(BaseModel):
    """Why."""

    reason: str = Field(min_length=1, max_length=2_000)


class Wanted(BaseModel):
    """A report to be made."""

    title: str = Field("", max_length=200)
    source: str | None = None
    max_deletions: int = Field(14, ge=1, le=100)
    certify: bool = True
    seed: int = Field(0, ge=0, lt=2**31)


def question(
    pick: Literal["worst", "random", "people"] = "worst",
    person: Annotated[list[str] | None, Query()] = None,
    k: Annotated[int, Query(ge=1, le=MOST)] = 1,
    seed: Annotated[int, Query(ge=0, le=2**31)] = 0,
    room: Annotated[float, Query(ge=0, le=5)] = 0.0,
    source: Annotated[str | None, Query()] = None,
) -> WhatIf:
    """A what-if question from the address."""
    people = [name for name in person or [] if name]
    if len(people) > MOST:
        raise HoldfastError(f"a question is about {MOST} people at most, not {len(people)}")
    return WhatIf(pick=pick, people=people, k=k, seed=seed, room=room, source=source or None)


Asked = Annotated[WhatIf, Depends(question)]


@router.get("/overview")
def overview(desk: TheDesk, visitor: Viewer) -> Overview:
    """How things stand; for viewers without small groups."""
    return desk.overview(visitor)


@router.get("/what-if")
def what_if(desk: TheDesk, visitor: Analyst, asked: Asked) -> Answer:
    """What would break, by the algebra. Nothing is written."""
    return desk.what_if(asked)


@router.get("/what-if/confirmed")
def confirmed(
    desk: TheDesk,
    visitor: Analyst,
    asked: Asked,
    seconds: Annotated[float, Query(ge=0, le=2)] = 0.5,
) -> Answer:
    """The same with the number a refit confirms, where there is one within some seconds."""
    return desk.confirm(asked, seconds)


@router.get("/worst-case")
def worst_case(desk: TheDesk, visitor: Analyst, source: str | None = None) -> Any:
    """The curve: worst case, random, proven ceiling by number of erasures; null until known."""
    found = desk.survey(source)
    return None if found is None else found["curve"]


@router.get("/people")
def people(
    desk: TheDesk,
    visitor: Analyst,
    text: Annotated[str, Query(min_length=1, max_length=200)],
    source: str | None = None,
) -> list[str]:
    """Ids of the training table that begin with a text, or have it in them."""
    return desk.suggestions(text, source)


@router.get("/promises")
def promises(
    desk: TheDesk,
    visitor: Analyst,
    state: str | None = None,
    about: Annotated[str, Query(max_length=200)] = "",
    sort: str = "number",
    descending: bool = False,
    page: Annotated[int, Query(ge=1, lt=2**31)] = 1,
) -> Any:
    """Promises, a page at a time. Personal data: that you looked is in the log."""
    return desk.promises(
        visitor, state=state or None, about=about, sort=sort, descending=descending, page=page
    )


@router.get("/promises/{number}")
def promise(desk: TheDesk, visitor: Analyst, number: Number) -> Any:
    """One promise with all that became of it. Personal data: that you looked is in the log."""
    record, words = desk.promise(number, visitor)
    return {"record": record, "advice": words}


@router.get("/requests")
def requests(desk: TheDesk, visitor: Officer, open_only: bool = False) -> Any:
    """Requests by due date."""
    return desk.requests(visitor, open_only)


@router.post("/requests", status_code=201)
def receive(desk: TheDesk, visitor: Officer, wanted: Ids) -> Any:
    """Requests to be erased, written down."""
    return desk.receive(visitor, wanted.ids, wanted.received, wanted.unknown)


@router.get("/requests/preview")
def preview(desk: TheDesk, visitor: Officer, number: Annotated[list[Number], Query()]) -> Any:
    """What honouring some requests would do; of the books nothing changes."""
    return desk.preview(visitor, number)


@router.post("/requests/honour")
def honour(desk: TheDesk, visitor: Officer, wanted: RequestNumbers) -> Any:
    """Requests honoured; or proposed, where a second person has to agree."""
    return desk.honour(visitor, wanted.numbers)


@router.post("/requests/{number}/refuse")
def refuse(desk: TheDesk, visitor: Officer, number: Number, why: Reason) -> Any:
    """A request closed without erasing anybody."""
    desk.refuse(visitor, number, why.reason)
    return {"request": number, "state": "cancelled"}


@router.post("/requests/{number}/extend")
def extend(desk: TheDesk, visitor: Officer, number: Number, why: Reason) -> Any:
    """More time for a request: once."""
    return {"request": number, "due": desk.extend(visitor, number, why.reason)}


@router.get("/letters")
def letters(desk: TheDesk, visitor: Officer) -> Any:
    """Letters that are to be sent."""
    return desk.letters(visitor)


@router.post("/letters/write")
def write_letters(desk: TheDesk, visitor: Officer, language: str | None = None) -> Any:
    """Letters written."""
    return {"written": desk.write_letters(visitor, language)}


@router.post("/letters/sent")
def letters_sent(desk: TheDesk, visitor: Officer, wanted: RequestNumbers) -> Any:
    """Letters were sent: their readers have been told."""
    return {"told": desk.letters_sent(visitor, wanted.numbers)}


@router.get("/reports")
def reports(desk: TheDesk, visitor: Viewer) -> Any:
    """Reports that are made or being made."""
    return [told_of(job, visitor) for job in desk.jobs.all()]


@router.get("/reports/{number}")
def report(desk: TheDesk, visitor: Viewer, number: Number) -> Any:
    """How far a report is."""
    return told_of(desk.jobs.one(number), visitor)


@router.post("/reports", status_code=202)
def start_report(desk: TheDesk, visitor: Analyst, wanted: Wanted) -> Any:
    """A report begins to be made."""
    asked = wanted.model_dump(include={"max_deletions", "certify", "seed"})
    source = desk.loaded.source(wanted.source)
    number = desk.jobs.start(wanted.title, source, asked, visitor.name)
    return told_of(desk.jobs.one(number), visitor)


@router.post("/reports/{number}/cancel")
def cancel_report(desk: TheDesk, visitor: Analyst, number: Number) -> Any:
    """A report is not wanted any more."""
    desk.jobs.cancel(number)
    return told_of(desk.jobs.one(number), visitor)


@router.get("/log")
def log(desk: TheDesk, visitor: Analyst, last: int = 100) -> Any:
    """The log's last lines, newest first."""
    return desk.log(visitor, last)


@router.get("/log/verify")
def verify(desk: TheDesk, visitor: Analyst, head: str | None = None) -> Any:
    """Whether the books are as they were written."""
    return desk.verify(visitor, head)


def told_of(job: Any, visitor: Visitor) -> dict[str, Any]:
    """A report, for programs; why one failed may name somebody, so viewers are not told."""
    names = ("id", "title", "source", "by", "state", "stage", "done", "message", "began", "ended")
    told = {name: getattr(job, name) for name in names}
    if told["message"] and not visitor.may("analyst"):
        told["message"] = KEPT_BACK
    return told
