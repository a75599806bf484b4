"""Looking things up in the books, on both databases."""

import json

import pytest

from holdfast.errors import HoldfastError
from holdfast.ledger.browsing import SORTS


def test_promises_by_page_and_one_with_its_history(any_desk):
    books, held = any_desk.books, any_desk.promises()
    for sort in SORTS:
        for descending in (False, True):
            pages = [books.promises(sort=sort, descending=descending, page=1)]
            pages += [
                books.promises(sort=sort, descending=descending, page=n)
                for n in range(2, pages[0].pages + 1)
            ]
            numbers = [line.number for page in pages for line in page.lines]
            assert sorted(numbers) == sorted(held.index)
    by_margin = [line.margin for line in books.promises(sort="margin").lines]
    assert by_margin == sorted(by_margin)
    name = any_desk.holder(inside=False)
    assert {line.reference for line in books.promises(about=name).lines} == {name}
    assert books.promises(about="%").total == 0  # a text, not a pattern
    assert books.promises(state="told").total == 0

    books.receive([any_desk.breaker()])
    before = books.status().promises["live"]
    books.honour([1])
    mended = books.promises(state="mended").lines
    record = books.promise(mended[0].number)
    assert record.line.state == "mended"
    assert record.mended_by in {line.number for line in books.promises(state="live").lines} | {
        each.number for n in range(1, 9) for each in books.promises(state="live", page=n).lines
    }
    assert [h["now"] for h in record.history if h["event"] == "promise"] == ["broken", "mended"]
    assert record.breaks[0]["before"] > record.target > record.breaks[0]["after"]
    assert len(record.letters) == 1
    assert books.promise(record.mended_by).mends == record.line.number
    assert books.changes()["promises"]["mended"] == len(mended)
    assert books.changes()["requests"] == {"completed": 1}
    assert books.status().promises["live"] == before


def test_a_look_is_in_the_log_and_changes_nothing(any_desk):
    books = any_desk.books
    stamp, states = books.last_change(), books.status()
    books.note("looked", [1, 2], page="promises", count=2)
    line = books.log(1)[0]
    assert (line.event, len(json.loads(line.body)["people"])) == ("looked", 2)
    assert books.last_change() == stamp
    assert books.status() == states
    assert books.verify().faults == []
    with pytest.raises(HoldfastError, match="notes are of"):
        books.note("erasure")


@pytest.mark.parametrize(
    "asked", [{"state": "happy"}, {"sort": "salt"}, {"sort": "id; DROP TABLE promises"}]
)
def test_what_cannot_be_looked_up(desk, asked):
    with pytest.raises(HoldfastError):
        desk.books.promises(**asked)
    for number in (0, -1, 10**12, 99999):
        with pytest.raises(HoldfastError, match="there is no promise"):
            desk.books.promise(number)
