"""The pages: templates filled with what the API answers; forms work without JavaScript."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from holdfast.desk import drawing
from holdfast.desk.access import ROLES, Visitor
from holdfast.desk.api import (
    Admin,
    Analyst,
    Asked,
    Number,
    Officer,
    TheDesk,
    Viewer,
    Wanted,
    refuse_forged,
    told_of,
    visitor_of,
)
from holdfast.desk.guard import CSP_ALONE
from holdfast.desk.service import day_of
from holdfast.desk.whatif import MOST, REACH, WhatIf
from holdfast.errors import HoldfastError
from holdfast.ledger.browsing import SORTS
from holdfast.ledger.tables import PROMISE_STATES
from holdfast.report.words import at_most, percent

router = APIRouter(include_in_schema=False)

#: pages by their address, their name and who may open them
MENU = (
    ("/", "Overview", "viewer"),
    ("/what-if", "What if", "analyst"),
    ("/requests", "Requests", "officer"),
    ("/promises", "Promises", "analyst"),
    ("/reports", "Reports", "viewer"),
    ("/log", "Log", "analyst"),
    ("/users", "Users", "admin"),
)

#: states of requests, in people's words
STOOD = {"completed": "honoured", "cancelled": "refused", "in_progress": "extended"}


@lru_cache(maxsize=1)
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("holdfast.desk"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["percent"] = percent
    made.filters["at_most"] = at_most
    made.filters["short"] = lambda value: "–" if value is None else f"{value:.3g}"
    made.filters["count"] = lambda value: "(not shown)" if value is None else f"{value:,}"
    made.filters["moment"] = day_of
    made.filters["stood"] = lambda state: STOOD.get(state, state)
    made.globals["drawing"] = drawing
    return made


def shown(
    request: Request, template: str, visitor: Visitor | None, status: int = 200, **content: Any
) -> HTMLResponse:
    """A page."""
    menu = [(at, name) for at, name, role in MENU if visitor is not None and visitor.may(role)]
    text = (
        _environment()
        .get_template(template)
        .render(visitor=visitor, menu=menu, here=request.scope["path"], **content)
    )
    return HTMLResponse(text, status)


def gone_to(place: str, **said: Any) -> RedirectResponse:
    """After a change, the page that shows it: loading that again changes nothing."""
    told = {name: value for name, value in said.items() if value is not None}
    return RedirectResponse(f"{place}?{urlencode(told)}" if told else place, 303)


def _of_this_visit(
    visitor: Annotated[Visitor, Depends(visitor_of)], csrf: Annotated[str, Form()] = ""
) -> None:
    refuse_forged(visitor, csrf)


#: forms that change something come from a page of the same visit
FORM = [Depends(_of_this_visit)]


# overview


@router.get("/")
def overview(request: Request, desk: TheDesk, visitor: Viewer) -> HTMLResponse:
    """How things stand."""
    found = desk.overview(visitor)
    template = "worst.html" if request.headers.get("HX-Request") else "overview.html"
    return shown(request, template, visitor, overview=found)


# what if


@router.get("/what-if")
def what_if(
    request: Request,
    desk: TheDesk,
    visitor: Analyst,
    asked: Asked,
    add: Annotated[str, Query(max_length=500)] = "",
    remove: Annotated[str | None, Query()] = None,
    confirm: bool = False,
) -> HTMLResponse:
    """Who breaks if these people were erased."""
    if add.strip():
        people = list(dict.fromkeys([*asked.people, add.strip()]))
        asked = asked.model_copy(update={"people": people, "pick": "people"})
    if remove is not None:
        left = [name for name in asked.people if name != remove]
        asked = asked.model_copy(update={"people": left})
    wrong = None
    try:
        answer, curve = desk.asked(asked)
    except HoldfastError as refusal:
        if asked.pick != "people":
            raise
        wrong = str(refusal)  # the others are asked about without whom it is about
        rest = [] if not add.strip() else [name for name in asked.people if name != add.strip()]
        asked = asked.model_copy(update={"people": rest})
        answer, curve = desk.asked(asked)
    if confirm:
        answer = desk.confirm(asked, 30.0)
    template = "answer.html" if request.headers.get("HX-Request") else "what_if.html"
    return shown(
        request,
        template,
        visitor,
        asked=asked,
        answer=answer,
        wrong=wrong,
        trouble=desk.trouble(asked.source) if answer.waiting else None,
        curve=curve,
        sources=list(desk.loaded.sources),
        reach=REACH,
        most=MOST,
        address=_address(asked),
    )


def _address(asked: WhatIf) -> str:
    """A question as it stands in an address."""
    told: list[tuple[str, Any]] = [("pick", asked.pick), ("k", asked.k), ("seed", asked.seed)]
    told += [("room", repr(asked.room))] + [("person", name) for name in asked.people]
    if asked.source:
        told.append(("source", asked.source))
    return urlencode(told)


@router.get("/what-if/confirmed")
def confirmed(request: Request, desk: TheDesk, visitor: Analyst, asked: Asked) -> HTMLResponse:
    """The number a refit confirms."""
    answer, trouble = None, None
    try:
        answer = desk.confirm(asked, 0.3)
    except HoldfastError as refusal:
        trouble = str(refusal)
    return shown(
        request, "confirmed.html", visitor, answer=answer, trouble=trouble, address=_address(asked)
    )


@router.get("/what-if/who")
def who(request: Request, desk: TheDesk, visitor: Analyst, asked: Asked) -> HTMLResponse:
    """Whom a question is about; the log has that somebody looked."""
    return shown(
        request, "who.html", visitor, people=desk.who(asked, visitor), address=_address(asked)
    )


@router.get("/what-if/people")
def suggestions(
    request: Request,
    desk: TheDesk,
    visitor: Analyst,
    add: Annotated[str, Query(max_length=500)] = "",
    source: str | None = None,
) -> HTMLResponse:
    """Ids that fit what is being typed."""
    return shown(
        request,
        "suggestions.html",
        visitor,
        names=desk.suggestions(add.strip(), source or None),
    )


# requests and letters


@router.get("/requests")
def requests(
    request: Request,
    desk: TheDesk,
    visitor: Officer,
    all_: Annotated[bool, Query(alias="all")] = False,
    said: Annotated[str, Query(max_length=500)] = "",
) -> HTMLResponse:
    """Requests by due date, and letters that are to be sent."""
    return shown(
        request,
        "requests.html",
        visitor,
        requests=desk.requests(visitor, not all_),
        letters=desk.letters(visitor),
        everything=all_,
        two_people=desk.two_people(),
        said=said,
    )


@router.post("/requests", dependencies=FORM)
def receive(
    desk: TheDesk,
    visitor: Officer,
    ids: Annotated[str, Form()] = "",
    received: Annotated[str, Form()] = "",
    unknown: Annotated[bool, Form()] = False,
) -> Response:
    """Requests written down: an id on each line."""
    wanted = [line.strip() for line in ids.splitlines() if line.strip()]
    found = desk.receive(visitor, wanted, received or None, unknown)
    numbers = ", ".join(str(each["request"]) for each in found[:5])
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return gone_to("/requests", said=f"received: request {numbers}{more}")


@router.get("/requests/preview")
def preview(
    request: Request,
    desk: TheDesk,
    visitor: Officer,
    number: Annotated[list[Number] | None, Query()] = None,
) -> HTMLResponse:
    """What honouring would do, with the button that does it."""
    if not number:
        raise HoldfastError("which requests? None was chosen")
    waiting = {each.request: each.by for each in desk.proposals()}
    return shown(
        request,
        "preview.html",
        visitor,
        numbers=number,
        found=desk.preview(visitor, number),
        two_people=desk.two_people(),
        proposed=[n for n in number if n in waiting],
        mine=[n for n in number if waiting.get(n) == visitor.name],
    )


@router.post("/requests/honour", dependencies=FORM)
def honour(
    request: Request,
    desk: TheDesk,
    visitor: Officer,
    number: Annotated[list[Number], Form()],
    sure: Annotated[bool, Form()] = False,
) -> HTMLResponse:
    """People erased, or proposed to be."""
    if not sure:
        raise HoldfastError("an erasure cannot be undone: say that you are sure. Nothing was done")
    return shown(request, "honoured.html", visitor, found=desk.honour(visitor, number))


@router.post("/requests/{number}/close", dependencies=FORM)
def close(
    desk: TheDesk,
    visitor: Officer,
    number: Number,
    what: Annotated[str, Form()],
    reason: Annotated[str, Form(max_length=2000)] = "",
) -> Response:
    """A request refused, extended, or not proposed any more."""
    if what == "refuse":
        desk.refuse(visitor, number, reason)
        return gone_to("/requests", said=f"request {number} was refused")
    if what == "extend":
        due = desk.extend(visitor, number, reason)
        return gone_to("/requests", said=f"request {number} is due {due} now")
    if what == "withdraw":
        desk.withdraw(visitor, number)
        return gone_to("/requests", said=f"request {number} waits for nobody any more")
    raise HoldfastError(f"a request is refused, extended or withdrawn, not {what!r}")


@router.post("/letters/write", dependencies=FORM)
def write_letters(
    desk: TheDesk, visitor: Officer, language: Annotated[str, Form(max_length=10)] = ""
) -> Response:
    """Letters written."""
    count = desk.write_letters(visitor, language.strip() or None)
    return gone_to("/requests", said=f"{count} letters written")


@router.get("/letters/{number}")
def letter(desk: TheDesk, visitor: Officer, number: Number) -> HTMLResponse:
    """One letter, to print."""
    page = desk.letter(visitor, number)
    return HTMLResponse(page, headers={"Content-Security-Policy": CSP_ALONE})


@router.post("/letters/sent", dependencies=FORM)
def letters_sent(
    desk: TheDesk, visitor: Officer, number: Annotated[list[Number] | None, Form()] = None
) -> Response:
    """Letters were sent."""
    count = desk.letters_sent(visitor, number or [])
    return gone_to("/requests", said=f"{count} people have been told")


# promises


@router.get("/promises")
def promises(
    request: Request,
    desk: TheDesk,
    visitor: Analyst,
    state: str = "",
    about: Annotated[str, Query(max_length=200)] = "",
    sort: str = "number",
    descending: bool = False,
    page: Annotated[int, Query(ge=1, lt=2**31)] = 1,
) -> HTMLResponse:
    """Promises, sorted and filtered."""
    found = desk.promises(
        visitor, state=state or None, about=about, sort=sort, descending=descending, page=page
    )

    def address(**other: Any) -> str:
        told = {"state": state, "about": about, "sort": sort, "descending": descending, **other}
        return "/promises?" + urlencode({k: v for k, v in told.items() if v not in ("", False)})

    return shown(
        request,
        "promises.html",
        visitor,
        found=found,
        states=PROMISE_STATES,
        state=state,
        about=about,
        sort=sort,
        sorts=tuple(SORTS),
        descending=descending,
        address=address,
    )


@router.get("/promises/{number}")
def promise(request: Request, desk: TheDesk, visitor: Analyst, number: Number) -> HTMLResponse:
    """One promise: its holder, its history, its certificate, its advice in words."""
    record, words = desk.promise(number, visitor)
    return shown(request, "promise.html", visitor, record=record, words=words)


# reports


@router.get("/reports")
def reports(request: Request, desk: TheDesk, visitor: Viewer, said: str = "") -> HTMLResponse:
    """Reports kept, and being made."""
    jobs = [told_of(job, visitor) for job in desk.jobs.all()]
    template = "jobs.html" if request.headers.get("HX-Request") else "reports.html"
    sources = list(desk.loaded.sources)
    return shown(request, template, visitor, jobs=jobs, sources=sources, reach=REACH, said=said)


@router.post("/reports", dependencies=FORM)
def start_report(
    desk: TheDesk,
    visitor: Analyst,
    title: Annotated[str, Form(max_length=200)] = "",
    source: Annotated[str, Form()] = "",
    max_deletions: Annotated[int, Form(ge=1, le=100)] = 14,
    seed: Annotated[int, Form(ge=0, lt=2**31)] = 0,
) -> Response:
    """A report begins to be made."""
    wanted = Wanted(title=title, source=source or None, max_deletions=max_deletions, seed=seed)
    asked = wanted.model_dump(include={"max_deletions", "certify", "seed"})
    desk.jobs.start(wanted.title, desk.loaded.source(wanted.source), asked, visitor.name)
    return gone_to("/reports")


@router.get("/reports/{number}")
def report(desk: TheDesk, visitor: Viewer, number: Number) -> HTMLResponse:
    """A report as it is shared."""
    page = desk.jobs.page(number)
    return HTMLResponse(page, headers={"Content-Security-Policy": CSP_ALONE})


@router.get("/reports/{number}/file")
def report_file(desk: TheDesk, visitor: Viewer, number: Number) -> Response:
    """A report to take away."""
    return Response(
        desk.jobs.page(number),
        media_type="text/html",
        headers={
            "Content-Disposition": f'attachment; filename="holdfast-report-{number}.html"',
            "Content-Security-Policy": CSP_ALONE,
        },
    )


@router.post("/reports/{number}/end", dependencies=FORM)
def end_report(
    desk: TheDesk, visitor: Analyst, number: Number, what: Annotated[str, Form()]
) -> Response:
    """A report cancelled, or not kept any more."""
    if what not in ("cancel", "remove"):
        raise HoldfastError(f"a report is cancelled or removed, not {what!r}")
    (desk.jobs.cancel if what == "cancel" else desk.jobs.remove)(number)
    return gone_to("/reports")


# the log


@router.get("/log")
def log(
    request: Request,
    desk: TheDesk,
    visitor: Analyst,
    last: Annotated[int, Query(ge=1, le=1000)] = 100,
    verify: bool = False,
    head: Annotated[str, Query(max_length=100)] = "",
) -> HTMLResponse:
    """The chain, and whether it holds."""
    found = desk.verify(visitor, head.strip()) if verify else None
    template = "verified.html" if request.headers.get("HX-Request") else "log.html"
    lines = [] if request.headers.get("HX-Request") else desk.log(visitor, last)
    return shown(request, template, visitor, lines=lines, last=last, verified=found, head=head)


# who may come in


@router.get("/users")
def users(request: Request, desk: TheDesk, visitor: Admin, said: str = "") -> HTMLResponse:
    """People and programs."""
    return _users(request, desk, visitor, said=said)


def _users(
    request: Request, desk: Any, visitor: Visitor, said: str = "", token: str | None = None
) -> HTMLResponse:
    return shown(
        request,
        "users.html",
        visitor,
        users=desk.access.users(),
        clients=desk.access.clients(),
        now=desk.home.clock(),
        roles=ROLES,
        two_people=desk.two_people(),
        said=said,
        token=token,
    )


@router.post("/users", dependencies=FORM)
def change_users(
    desk: TheDesk,
    visitor: Admin,
    what: Annotated[str, Form()],
    name: Annotated[str, Form(max_length=200)],
    role: Annotated[str, Form()] = "viewer",
    password: Annotated[str, Form(max_length=500)] = "",
) -> Response:
    """Somebody new, another role, another first password, or nobody any more."""
    if what == "add":
        desk.access.add(name, role, password)
    elif what == "role":
        desk.access.change_user(name, role=role)
    elif what == "password":
        desk.access.change_user(name, password=password)
    elif what == "remove":
        desk.access.remove(name)
    else:
        raise HoldfastError(f"{what!r} is nothing that can be done to people")
    return gone_to("/users", said="done")


@router.post("/users/settings", dependencies=FORM)
def change_settings(
    desk: TheDesk, visitor: Admin, two_people: Annotated[bool, Form()] = False
) -> Response:
    """How the desk works."""
    desk.home.set("two_people", "yes" if two_people else "no")
    return gone_to("/users", said="done")


@router.post("/users/clients", dependencies=FORM)
def change_clients(
    request: Request,
    desk: TheDesk,
    visitor: Admin,
    what: Annotated[str, Form()],
    name: Annotated[str, Form(max_length=200)],
    role: Annotated[str, Form()] = "viewer",
    days: Annotated[int, Form()] = 90,
) -> Response:
    """A token for a program, shown this once; or one that is good for nothing any more."""
    if what == "remove":
        desk.access.remove_client(name)
        return gone_to("/users", said="done")
    token = desk.access.add_client(name, role, days)
    return _users(request, desk, visitor, token=token)


@router.get("/account")
def account(request: Request, visitor: Viewer, said: str = "") -> HTMLResponse:
    """One's own password."""
    return shown(request, "account.html", visitor, said=said)


@router.post("/account", dependencies=FORM)
def change_password(
    desk: TheDesk,
    visitor: Viewer,
    old: Annotated[str, Form(max_length=500)],
    new: Annotated[str, Form(max_length=500)],
    again: Annotated[str, Form(max_length=500)],
) -> Response:
    """Another password; then one signs in with it."""
    if new != again:
        raise HoldfastError("the two new passwords differ: nothing was done")
    desk.access.change_password(visitor.name, old, new)
    return gone_to("/sign-in", said="your password was changed: sign in with it")
