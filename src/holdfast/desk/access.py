"""Who may come in, and what they may do: passwords, visits, tokens of programs."""

from __future__ import annotations

import hashlib
import secrets
import threading
import unicodedata
from dataclasses import dataclass
from typing import Any

import argon2
from sqlalchemy import delete, select, update

from holdfast.desk.home import Client, Home, Proposal, Ticket, User, Visit
from holdfast.errors import HoldfastError
from holdfast.inert import one_line
from holdfast.ledger.records import refuse_no_text

#: what people may do; each may do what those before it may
ROLES = ("viewer", "analyst", "officer", "admin")

#: wrong passwords in a row until a name is locked, for how many seconds at first, and at most
FAILURES, LOCKED, LOCKED_MOST = 5, 60.0, 3600.0

#: seconds a visit lasts without a sign of life, and at most
IDLE, LONGEST = 3600.0, 12 * 3600.0

#: seconds the token in the address is good for
TICKET = 900.0

#: letters a password has at least, and at most
SHORTEST, LONGEST_PASSWORD = 12, 200

WRONG = "the name or the password is wrong, or the name is locked for a while"


class Refused(HoldfastError):
    """Somebody may not do this: signed in as nobody, or with too small a role.

    ``status`` is that of the answer: 401 or 403.
    """

    def __init__(self, said: str, status: int = 403):
        super().__init__(said)
        self.status = status


class FirstPassword(Refused):
    """Somebody still has the password an admin gave them."""


@dataclass(frozen=True)
class Visitor:
    """Whoever asks: a person with a visit, or a program with a token (no ``csrf``)."""

    name: str
    role: str
    csrf: str | None = None
    must_change: bool = False

    def may(self, role: str) -> bool:
        """Whether they may do what a role may."""
        return ROLES.index(self.role) >= ROLES.index(role)


def hashed(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class Access:
    """The door of a desk."""

    def __init__(self, home: Home):
        self._home = home
        self._hasher = argon2.PasswordHasher()
        self._nobody = self._hasher.hash(secrets.token_hex(16))
        self._one_at_a_time = threading.BoundedSemaphore(2)  # each takes 64 MB for a moment

    # people

    def users(self) -> list[User]:
        """Everybody with a password."""
        with self._home.reading() as session:
            return list(session.execute(select(User).order_by(User.name)).scalars())

    def add(self, name: str, role: str, password: str, must_change: bool = True) -> None:
        """Somebody new, with a first password that they are asked to change."""
        refuse_no_text(name, "the name")
        refuse_no_text(password, "the password")
        name = name.strip()
        if not 1 <= len(name) <= 80 or one_line(name) != name:
            raise HoldfastError("a name has from 1 to 80 letters, on one line")
        _refuse_unknown_role(role)
        hash_ = self._checked(password, name)
        with self._home.writing() as session:
            there = session.execute(select(User.name)).scalars().all()
            alike = [other for other in there if _seen(other) == _seen(name)]
            if alike or not _seen(name):
                others = f"{alike[0]!r} is there already" if alike else "this name cannot be seen"
                raise HoldfastError(f"{others}: nothing was done")
            session.add(User(name=name, role=role, password=hash_, must_change=must_change))

    def change_password(self, name: str, old: str, new: str) -> None:
        """Another password; all visits of theirs end."""
        self._check(name, old)
        if old == new:
            raise HoldfastError("the new password is the old one: choose another")
        hash_ = self._checked(new, name)
        with self._home.writing() as session:
            user = session.get_one(User, name)
            user.password, user.must_change = hash_, False
            session.execute(delete(Visit).where(Visit.name == name))

    def change_user(self, name: str, role: str | None = None, password: str | None = None) -> None:
        """Another role, or a new first password, which also unlocks; all their visits end.

        What somebody in another role proposed is proposed no more.
        """
        if role is not None:
            _refuse_unknown_role(role)
        hash_ = None if password is None else self._checked(password, name)
        with self._home.writing() as session:
            user = _user(session, name)
            if role is not None and role != user.role:
                _refuse_last_admin(session, user)
                user.role = role
                session.execute(delete(Proposal).where(Proposal.by == name))
            if hash_ is not None:
                user.password, user.must_change = hash_, True
                user.failures, user.locked_until = 0, 0.0
            session.execute(delete(Visit).where(Visit.name == name))

    def remove(self, name: str) -> None:
        """Somebody who may not come in any more, from now on; nor does what they proposed stand."""
        with self._home.writing() as session:
            user = _user(session, name)
            _refuse_last_admin(session, user)
            session.delete(user)
            session.execute(delete(Visit).where(Visit.name == name))
            session.execute(delete(Proposal).where(Proposal.by == name))

    def _checked(self, password: str, name: str) -> str:
        if not SHORTEST <= len(password) <= LONGEST_PASSWORD:
            raise HoldfastError(
                f"a password has from {SHORTEST} to {LONGEST_PASSWORD} letters, this one "
                f"{len(password)}"
            )
        if password.casefold() == name.casefold() or len(set(password)) < 4:
            raise HoldfastError("this password is too easily guessed: choose another")
        with self._one_at_a_time:
            return self._hasher.hash(password)

    # coming in and going out

    def sign_in(self, name: str, password: str) -> str:
        """A visit of somebody who knows the password; the cookie."""
        user = self._check(name, password)
        return self._begin(user.name, user.role)

    def _check(self, name: str, password: str) -> User:
        """The user whose password this is; as slow and as silent for names nobody has.

        A failure counts before the password is looked at, so that many tries at once count too.
        """
        now = self._home.clock()
        with self._home.writing() as session:
            user = session.get(User, name)
            locked = user is not None and user.locked_until > now
            if user is not None and not locked:
                user.failures += 1
                if user.failures >= FAILURES:
                    for_so_long = LOCKED * 2.0 ** min(user.failures - FAILURES, 10)
                    user.locked_until = now + min(for_so_long, LOCKED_MOST)
        right = False
        with self._one_at_a_time:
            try:
                self._hasher.verify(self._nobody if user is None else user.password, password)
                right = user is not None and not locked
            except (argon2.exceptions.VerificationError, UnicodeEncodeError):
                right = False
        if not right or user is None:
            raise Refused(WRONG, 401)
        with self._home.writing() as session:
            found = session.get(User, name)
            if found is None:
                raise Refused(WRONG, 401)
            found.failures, found.locked_until = 0, 0.0
            return found

    def ticket(self) -> str:
        """A token for the address the desk is opened with: once, and soon."""
        token, now = secrets.token_urlsafe(32), self._home.clock()
        with self._home.writing() as session:
            session.execute(delete(Ticket).where(Ticket.expires < now))
            session.add(Ticket(key=hashed(token), expires=now + TICKET))
        return token

    def redeem(self, token: str, name: str) -> str:
        """A visit of whoever started the desk; the cookie."""
        with self._home.writing() as session:
            found = session.get(Ticket, hashed(token))
            if found is None or found.used or found.expires < self._home.clock():
                raise Refused(
                    "the token in this address was used, or has expired. Start the desk again for "
                    "another, or sign in"
                )
            found.used = True
        return self._begin(name, "admin")

    def _begin(self, name: str, role: str) -> str:
        cookie, now = secrets.token_urlsafe(32), self._home.clock()
        with self._home.writing() as session:
            session.execute(
                delete(Visit).where((Visit.seen < now - IDLE) | (Visit.began < now - LONGEST))
            )
            csrf = secrets.token_urlsafe(24)
            session.add(
                Visit(key=hashed(cookie), name=name, role=role, csrf=csrf, began=now, seen=now)
            )
        return cookie

    def sign_out(self, cookie: str) -> None:
        """The end of a visit."""
        with self._home.writing() as session:
            session.execute(delete(Visit).where(Visit.key == hashed(cookie)))

    def visitor(self, cookie: str) -> Visitor | None:
        """Whose visit a cookie is of; ``None`` where there is none, or it is over."""
        now, key = self._home.clock(), hashed(cookie)
        with self._home.reading() as session:
            found = session.get(Visit, key)
            if found is None or found.seen < now - IDLE or found.began < now - LONGEST:
                return None
            user = session.get(User, found.name)
            must = user is not None and user.must_change
        if found.seen < now - 60:
            with self._home.writing() as session:
                session.execute(update(Visit).where(Visit.key == key).values(seen=now))
        return Visitor(found.name, found.role, found.csrf, must)

    # programs

    def clients(self) -> list[Client]:
        """Every program with a token."""
        with self._home.reading() as session:
            return list(session.execute(select(Client).order_by(Client.name)).scalars())

    def add_client(self, name: str, role: str, days: int = 90) -> str:
        """A token for a program, shown this once."""
        refuse_no_text(name, "the name")
        if not 1 <= len(name.strip()) <= 80 or one_line(name) != name:
            raise HoldfastError("a program's name has from 1 to 80 letters, on one line")
        if not 1 <= days <= 3650:
            raise HoldfastError(f"a token is good for 1 to 3650 days, not {days}")
        _refuse_unknown_role(role)
        token = f"hfd_{secrets.token_urlsafe(32)}"
        with self._home.writing() as session:
            if session.get(Client, name) is not None:
                raise HoldfastError(f"a program {name!r} is there already: nothing was done")
            until = self._home.clock() + 86400.0 * days
            session.add(Client(name=name, key=hashed(token), role=role, expires=until))
        return token

    def remove_client(self, name: str) -> None:
        """A program's token is good for nothing any more."""
        with self._home.writing() as session:
            found = session.get(Client, name)
            if found is None:
                raise HoldfastError(f"no program is called {name!r}: nothing was done")
            session.delete(found)
            session.execute(delete(Proposal).where(Proposal.by == f"program {name}"))

    def client(self, token: str) -> Visitor:
        """Which program a token is of."""
        with self._home.reading() as session:
            asked = select(Client).where(Client.key == hashed(token))
            found = session.execute(asked).scalar_one_or_none()
        if found is None:
            raise Refused("this token is nobody's: ask an admin of the desk for one", 401)
        if found.expires < self._home.clock():
            raise Refused("this token has expired: ask an admin of the desk for another", 401)
        return Visitor(f"program {found.name}", found.role)


def _seen(name: str) -> str:
    """What is seen of a name: without capitals, accents' spellings, and what has no width."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(letter for letter in plain if unicodedata.category(letter) != "Cf").strip()


def _refuse_unknown_role(role: str) -> None:
    if role not in ROLES:
        raise HoldfastError(f"a role is one of {', '.join(ROLES)}, not {role!r}")


def _user(session: Any, name: str) -> User:
    found: User | None = session.get(User, name)
    if found is None:
        raise HoldfastError(f"nobody is called {name!r}: nothing was done")
    return found


def _refuse_last_admin(session: Any, user: User) -> None:
    """Somebody must be able to let others in."""
    admins = session.execute(select(User.name).where(User.role == "admin")).scalars().all()
    if admins == [user.name]:
        raise HoldfastError(f"{user.name!r} is the only admin: nothing was done")
