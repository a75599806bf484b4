"""Who comes in, and what they may do there."""

import re

import pytest
from desk_at_hand import PASSWORD, Office, post

from holdfast.desk.access import FAILURES, IDLE, LOCKED, LONGEST, ROLES, TICKET, Refused
from holdfast.errors import HoldfastError

#: every page and every question of the API, by the smallest role that may open it
PLACES = {
    "viewer": ["/", "/reports", "/account", "/api/v1/overview", "/api/v1/reports"],
    "analyst": [
        *("/what-if?pick=random&k=2", "/what-if/confirmed?pick=random", "/what-if/people?add=C"),
        *("/what-if/who?pick=random", "/promises", "/promises/1", "/log", "/log?verify=true"),
        *("/api/v1/what-if?pick=random", "/api/v1/people?text=C", "/api/v1/promises"),
        *("/api/v1/promises/1", "/api/v1/log", "/api/v1/log/verify", "/api/v1/worst-case"),
        "/api/v1/what-if/confirmed?pick=random&seconds=0",
    ],
    "officer": [
        *("/requests", "/requests?all=true", "/requests/preview?number=1", "/letters/1"),
        *("/api/v1/requests", "/api/v1/requests/preview?number=1", "/api/v1/letters"),
    ],
    "admin": ["/users"],
}

#: everything that changes something
CHANGES = {
    "analyst": ["/reports", "/reports/1/end", "/api/v1/reports", "/api/v1/reports/1/cancel"],
    "officer": [
        *("/requests", "/requests/honour", "/requests/1/close", "/letters/write", "/letters/sent"),
        *("/api/v1/requests", "/api/v1/requests/honour", "/api/v1/requests/1/refuse"),
        *("/api/v1/requests/1/extend", "/api/v1/letters/write", "/api/v1/letters/sent"),
    ],
    "admin": ["/users", "/users/settings", "/users/clients"],
}


@pytest.mark.parametrize("role", ROLES)
def test_every_page_is_for_its_role_and_those_above(office, role):
    client = office.visit(role)
    for smallest, places in PLACES.items():
        may = ROLES.index(role) >= ROLES.index(smallest)
        for place in places:
            for headers in ({}, {"HX-Request": "true"}):
                answer = client.get(place, headers=headers)
                fine = (200, 409) if may else (403,)  # 409: there is no request 1, no letter 1
                assert answer.status_code in fine, (place, answer.text[-300:])
                assert answer.headers["cache-control"] == "no-store"
                if not may:
                    assert smallest in answer.text


@pytest.mark.parametrize("role", ROLES)
def test_every_change_is_for_its_role_and_those_above(office, role):
    client, before = office.visit(role), office.counter.books.verify().content
    for smallest, places in CHANGES.items():
        for place in places if ROLES.index(role) < ROLES.index(smallest) else ():
            headers = {"x-csrf-token": client.csrf}
            kind = {"json": {}} if place.startswith("/api") else {"data": {"csrf": client.csrf}}
            answer = client.post(place, headers=headers, **kind)
            assert answer.status_code in (403, 422), place
            if answer.status_code == 422:  # read before who asks is known: nothing was done
                assert "Nothing was done" in answer.text
    assert office.counter.books.verify().content == before


def test_the_two_lists_have_every_address(office):
    """Nobody adds a page without saying who may open it."""
    listed = {re.sub(r"/\d+", "/{}", p.split("?")[0]) for ps in PLACES.values() for p in ps}
    changing = {re.sub(r"/\d+", "/{}", p) for ps in CHANGES.values() for p in ps}
    door = {"/sign-in", "/open", "/static/{}", "/api/v1/openapi.json", "/reports/{}"}
    door |= {"/reports/{}/file", "/api/v1/reports/{}"}
    paths = {}
    for route in _routes(office.app):
        for method in route.methods - {"HEAD"}:
            paths.setdefault(method, set()).add(re.sub(r"\{[^}]*\}", "{}", route.path))
    assert paths["GET"] - listed - door == set()
    assert paths["POST"] - changing - {"/sign-in", "/sign-out", "/account"} == set()
    assert set(paths) == {"GET", "POST"}


def _routes(app):
    found = []
    for route in app.routes:
        inner = getattr(route, "original_router", None)
        found += inner.routes if inner is not None else [route]
    return [route for route in found if hasattr(route, "methods")]


def test_a_stranger_sees_the_door_only(office):
    client = office.stranger()
    for places in PLACES.values():
        for place in places:
            answer = client.get(place, follow_redirects=False)
            wanted = 401 if place.startswith("/api") else 303
            assert answer.status_code == wanted, place
            if wanted == 303:
                assert answer.headers["location"].startswith("/sign-in")
    assert client.get("/static/style.css").status_code == 200
    assert client.get("/static/../home.py").status_code == 404


def test_a_change_needs_the_token_of_the_visit(office):
    client, other = office.visit("admin"), office.visit("admin", "second")
    for forged in ("", "x", other.csrf, "ü" * 5):
        answer = client.post("/users/settings", data={"csrf": forged, "two_people": "true"})
        assert answer.status_code == 403
        answer = client.post("/api/v1/requests", json={"ids": ["C-0001"]})
        assert answer.status_code == 403
    assert not office.desk.two_people()
    assert post(client, "/users/settings", two_people="true").status_code == 200
    assert office.desk.two_people()


def test_too_many_wrong_passwords_lock_a_name_for_a_while(office):
    office.visit("viewer")
    access = office.desk.access
    for _ in range(FAILURES):
        with pytest.raises(Refused):
            access.sign_in("viewer", "wrong")
    with pytest.raises(Refused, match="locked"):
        access.sign_in("viewer", PASSWORD)
    answer = office.stranger().post("/sign-in", data={"name": "viewer", "password": PASSWORD})
    assert answer.status_code == 401
    nobody = office.stranger().post("/sign-in", data={"name": "nobody", "password": PASSWORD})
    assert nobody.status_code == 401
    said = [re.search(r'id="said">([^<]*)', a.text)[1] for a in (answer, nobody)]
    assert said[0] == said[1]  # nobody learns which names there are
    office.later += LOCKED + 1
    assert access.sign_in("viewer", PASSWORD)


def test_a_visit_ends(office):
    client = office.visit("viewer")
    office.later += IDLE / 2
    assert client.get("/reports", follow_redirects=False).status_code == 200
    office.later += IDLE * 0.9
    assert client.get("/reports", follow_redirects=False).status_code == 200  # it was used
    office.later += IDLE + 1
    assert client.get("/reports", follow_redirects=False).status_code == 303
    client = office.visit("viewer")
    for _ in range(int(LONGEST / IDLE) * 2 + 2):
        office.later += IDLE / 2
        client.get("/reports")
    assert client.get("/reports", follow_redirects=False).status_code == 303


def test_signing_out_ends_the_visit_for_whoever_has_the_cookie(office):
    client = office.visit("viewer")
    copy = office.stranger()
    copy.cookies = client.cookies
    assert copy.get("/reports", follow_redirects=False).status_code == 200
    assert post(client, "/sign-out").status_code == 200
    assert copy.get("/reports", follow_redirects=False).status_code == 303


def test_the_token_in_the_address_is_good_once_and_soon(office):
    token = office.desk.access.ticket()
    client = office.stranger()
    assert client.get(f"/open?token={token}", follow_redirects=False).status_code == 303
    assert client.get("/users").status_code == 200
    again = office.stranger().get(f"/open?token={token}")
    assert again.status_code == 403
    assert "was used, or has expired" in again.text
    late = office.desk.access.ticket()
    office.later += TICKET + 1
    assert office.stranger().get(f"/open?token={late}").status_code == 403
    assert office.stranger().get("/open?token=x").status_code == 403


def test_cookies_and_headers(office):
    answer = office.stranger().get(
        f"/open?token={office.desk.access.ticket()}", follow_redirects=False
    )
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_passwords_are_hashed_and_cookies_are_not_kept(office):
    client = office.visit("viewer")
    (cookie,) = client.cookies.values()
    token = office.desk.access.add_client("nightly", "viewer")
    office.home.close()
    content = b"".join(p.read_bytes() for p in office.home.folder.glob("desk.db*"))
    assert b"$argon2id$" in content
    for secret in (PASSWORD, cookie, token, client.csrf[:0] or PASSWORD):
        assert secret.encode() not in content
    assert office.home.folder.stat().st_mode & 0o077 == 0
    assert (office.home.folder / "desk.db").stat().st_mode & 0o077 == 0


def test_somebody_new_chooses_a_password_first(office):
    admin = office.visit("admin")
    first = "a first password"
    post(admin, "/users", what="add", name="Ada", role="officer", password=first)
    client = office.stranger()
    client.post("/sign-in", data={"name": "Ada", "password": first})
    assert "choose a password of your own" in client.get("/requests").text
    assert client.get("/api/v1/requests").status_code == 403
    client.csrf = re.search(r'data-csrf="([^"]+)"', client.get("/account").text)[1]
    wrong = post(client, "/account", old=first, new="another password", again="yet another one")
    assert wrong.status_code == 409
    done = post(client, "/account", old=first, new="another password", again="another password")
    assert "was changed" in done.text
    client.post("/sign-in", data={"name": "Ada", "password": "another password"})
    assert client.get("/requests").status_code == 200


def test_whose_role_changes_or_who_is_removed_is_out_at_once(office):
    admin, ada = office.visit("admin"), office.visit("officer", "Ada")
    post(admin, "/users", what="role", name="Ada", role="viewer")
    assert ada.get("/requests", follow_redirects=False).status_code == 303
    ada = office.visit("viewer", "Ada")
    post(admin, "/users", what="remove", name="Ada")
    assert ada.get("/", follow_redirects=False).status_code == 303
    assert post(admin, "/users", what="remove", name="admin").status_code == 409
    assert post(admin, "/users", what="role", name="admin", role="viewer").status_code == 409


@pytest.mark.parametrize(
    ("name", "role", "password"),
    [
        ("", "viewer", PASSWORD),
        ("a\nb", "viewer", PASSWORD),
        ("x" * 81, "viewer", PASSWORD),
        ("Ada", "king", PASSWORD),
        ("Ada", "viewer", "short"),
        ("Ada", "viewer", "a" * 20),
        ("correct horse", "viewer", "correct horse"),
        ("Ada", "viewer", "x" * 201),
    ],
)
def test_who_cannot_be_let_in(office, name, role, password):
    with pytest.raises(HoldfastError):
        office.desk.access.add(name, role, password)
    assert office.desk.access.users() == []


@pytest.mark.parametrize("name", ["Bob", "bo\u200bb", "ｂob", "\ufeff"])
def test_names_that_look_alike(office, name):
    office.desk.access.add("bob", "viewer", PASSWORD)
    with pytest.raises(HoldfastError, match="there already|cannot be seen|one line"):
        office.desk.access.add(name, "viewer", PASSWORD)


def test_programs_have_tokens_of_their_own(office):
    access, client = office.desk.access, office.stranger()
    token = access.add_client("nightly", "analyst", days=2)
    headers = {"Authorization": f"Bearer {token}"}
    assert client.get("/api/v1/promises", headers=headers).status_code == 200
    assert client.get("/api/v1/requests", headers=headers).status_code == 403
    assert "openapi" in client.get("/api/v1/openapi.json", headers=headers).json()
    assert any(e.by == "program nightly" for e in office.counter.books.log())
    office.later += 3 * 86400
    late = client.get("/api/v1/promises", headers=headers)
    assert late.status_code == 401
    assert "expired" in late.json()["error"]
    for wrong in ("Bearer x", "Basic abc", "Bearer ", token):
        assert client.get("/api/v1/promises", headers={"Authorization": wrong}).status_code == 401
    access.remove_client("nightly")
    assert "nobody's" in client.get("/api/v1/promises", headers=headers).json()["error"]


def test_names_that_other_sites_gave_the_machine_are_refused(tmp_path):
    from holdfast.desk.app import application

    office = Office(tmp_path)
    office.app = application(office.desk, ["127.0.0.1", "testserver"], 1)
    assert office.stranger().get("/sign-in").status_code == 200
    rebound = office.stranger().get("/sign-in", headers={"host": "evil.example"})
    assert rebound.status_code == 400
    office.close()
