"""What people are told, and what other systems are."""

import hashlib
import json
import re
import shutil
import uuid
from datetime import date

import pytest

import holdfast as hf
from holdfast.ledger import opendsr
from holdfast.recourse.wording import Wording
from holdfast.report.letters import LetterText, letter_page, summary_page

DAY = date(2026, 11, 18)
WORDS = Wording.of(
    {
        "savings": {"label": "your savings", "unit": "€"},
        "purpose": {"label": "the purpose", "values": {"A43": "radio or television"}},
    }
)


def change(what, before, after, number=True):
    return {"what": what, "from": before, "to": after, "number": number}


def letter(**other):
    told = {
        "number": 7,
        "to": "K-1",
        "advice": "new",
        "was": [change("savings", 500.0, 12500.0)],
        "now": [change("savings", 500.0, 13000.5), change("purpose", "A43", "A46", False)],
        "reasons": [["savings", "low"], ["purpose", "other"], ["job", "missing"]],
    }
    return LetterText(**{**told, **other})


def shown(*args, **other):
    page = letter_page(*args, **other)
    return re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.S))


def test_english():
    text = shown(letter(), WORDS, "en", "Example Bank", DAY)
    assert "raise your savings from 500 to 12,500 €" in text
    assert "raise your savings from 500 to 13,000.5 €" in text
    assert "change the purpose from radio or television to A46" in text
    assert "If you have followed our first advice already" in text
    assert "raise your savings from 12,500 to 13,000.5 €" in text
    assert "your savings: too low" in text
    assert "18 November 2026" in text
    assert "Your reference: K-1" in text


def test_german():
    text = shown(letter(), WORDS, "de", "Beispielbank", DAY)
    assert "your savings: von 500 auf 12.500 € erhöhen" in text
    assert "your savings: von 500 auf 13.000,5 € erhöhen" in text
    assert "the purpose: von radio or television zu A46 wechseln" in text
    assert "your savings: zu niedrig" in text
    assert "18.11.2026" in text


def test_people_with_nothing_left_to_do():
    done = letter(now=[change("savings", 500.0, 12500.0)])
    assert "nothing more is needed" in shown(done, WORDS, "en", "", DAY)
    assert "would be favourable now" in shown(letter(advice="already"), WORDS, "en", "", DAY)
    none = shown(letter(advice="none", now=[]), WORDS, "en", "", DAY)
    assert "At present we cannot advise you" in none
    assert "Principal reasons" in none


def test_hostile_names_stay_text():
    page = letter_page(letter(to="<script>alert(1)</script>"), WORDS, "en", "<b>Bank", DAY)
    assert "<script>" not in page
    assert "<b>Bank" not in page
    assert "<script>" not in summary_page([letter(to="<script>x</script>")], DAY)


def test_templates_of_ones_own(tmp_path):
    (tmp_path / "nl.html").write_text(
        "{% extends 'base.html' %}{% block body %}{{ to }}!{% endblock %}"
    )
    assert "K-1!" in letter_page(letter(), WORDS, "nl", "", DAY, tmp_path)
    (tmp_path / "xx.html").write_text("{{ to.__class__.__mro__[1].__subclasses__() }}")
    with pytest.raises(hf.HoldfastError, match="cannot be filled in"):
        letter_page(letter(), WORDS, "xx", "", DAY, tmp_path)
    (tmp_path / "yy.html").write_text("{{ nothing_there }}")
    with pytest.raises(hf.HoldfastError, match="nothing_there"):
        letter_page(letter(), WORDS, "yy", "", DAY, tmp_path)
    with pytest.raises(hf.HoldfastError, match="no letter template 'zz.html'"):
        letter_page(letter(), WORDS, "zz", "", DAY)
    with pytest.raises(hf.HoldfastError, match="no letter template"):
        letter_page(letter(), WORDS, "../page", "", DAY)


def test_letters_of_an_erasure(desk):
    name = desk.breaker()
    found = desk.books.honour([desk.books.receive([name])[0].id])
    texts = desk.books.write_letters(desk.folder / "letters", language="de")
    assert len(texts) == len(found.outcome.mends)
    folder = desk.folder / "letters"
    assert folder.stat().st_mode & 0o777 == 0o700
    for text in texts:
        page = (folder / f"letter-{text.number:05d}.html").read_text()
        assert name not in page  # never says who was erased
        assert text.to in page
        assert "monthly income" in page or "savings" in page or "job" in page
        assert (folder / f"letter-{text.number:05d}.html").stat().st_mode & 0o777 == 0o600
    assert f"{len(texts)} letters to send" in (folder / "summary.html").read_text()
    told = {each["what"] for text in texts for each in text.now}
    assert not told & {"age", "region"}  # what nobody can change is no advice
    with pytest.raises(hf.HoldfastError, match="letter 999 is not written"):
        desk.books.letters_sent([999])
    one = texts[0].number
    assert desk.books.letters_sent([one]) == 1
    assert desk.books.letters_sent() == len(texts) - 1
    assert desk.books.write_letters(desk.folder / "more") == []
    assert not (desk.folder / "more").exists()


def test_advice_in_a_letter_does_lead_to_the_target(desk):
    """Whatever a letter says is what the new promise has, and the model says yes to it."""
    found = desk.books.honour([desk.books.receive([desk.breaker()])[0].id])
    promises = desk.promises()
    for place, mend in found.outcome.mends.items():
        old = found.outcome.held.lines[place]
        new = promises[promises["mends"] == old.id].iloc[0]
        assert new["point"] == mend.point
        assert new["margin"] >= 0
        for each in mend.content["now"]:
            assert each["to"] in mend.point


def test_pdf_has_one_page(desk):
    if shutil.which("chromium") is None:
        pytest.skip("no Chromium to print with")
    desk.books.honour([desk.books.receive([desk.breaker()])[0].id])
    texts = desk.books.write_letters(desk.folder / "letters")
    desk.books.letters_sent([text.number for text in texts[1:]])
    assert len(desk.books.write_letters(desk.folder / "letters", pdf=True)) == 1
    data = (desk.folder / "letters" / f"letter-{texts[0].number:05d}.pdf").read_bytes()
    assert data.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", data)) == 1


def test_no_browser_is_said_before_anything_is_written(desk, monkeypatch):
    desk.books.honour([desk.books.receive([desk.breaker()])[0].id])
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(hf.HoldfastError, match="no browser to print PDF with"):
        desk.books.write_letters(desk.folder / "letters", pdf=True)
    assert not (desk.folder / "letters").exists()
    assert desk.books.status().letters["written"] == 0


# Requests from other systems


SECRET = {"identity_type": "controller_customer_id", "identity_value": "secret-id"}


def asked(name, form="raw", **other):
    value = name if form == "raw" else getattr(hashlib, form)(name.encode()).hexdigest()
    told = {
        "subject_request_id": str(uuid.uuid4()),
        "subject_request_type": "erasure",
        "submitted_time": "2026-11-02T15:00:00Z",
        "regulation": "gdpr",
        "api_version": "3.0",
        "subject_identities": [
            {"identity_type": "email", "identity_value": "a@example.org"},
            {
                "identity_type": "controller_customer_id",
                "identity_value": value,
                "identity_format": form,
            },
        ],
        "status_callback_urls": ["https://example.org/status"],
    }
    return {**told, **other}


def written(path, content):
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("form", ["raw", "sha256", "sha1", "md5"])
def test_a_request_as_it_comes(desk, tmp_path, form):
    name = desk.breaker()
    told = asked(name, form)
    path = written(tmp_path / "in.json", [told])
    request = desk.books.receive(opendsr_file=path)[0]
    assert request.reference == told["subject_request_id"]
    assert str(request.received) == "2026-11-02"
    assert str(request.due) == "2026-12-02"
    answer = opendsr.status(request)
    assert answer["request_status"] == "pending"
    assert answer["subject_request_id"] == told["subject_request_id"]
    with pytest.raises(hf.HoldfastError, match="is here already, as number 1"):
        desk.books.receive(opendsr_file=path)
    assert desk.books.honour([request.id]).rows == 1
    answer = opendsr.status(desk.books.requests()[0])
    assert answer["request_status"] == "completed"
    everything = json.dumps(answer) + str(desk.books.verify())
    assert name not in everything
    assert "a@example.org" not in everything


def test_states_that_are_reported(desk, tmp_path):
    one, other = desk.holder(inside=True), desk.holder(inside=False)
    numbers = [r.id for r in desk.books.receive([one, other])]
    desk.books.extend(numbers[0], "many at once")
    desk.books.refuse(numbers[1], "their identity could not be checked")
    found = {request.id: opendsr.status(request) for request in desk.books.requests()}
    assert found[numbers[0]]["request_status"] == "in_progress"
    assert found[numbers[1]]["request_status"] == "cancelled"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"subject_request_type": "access"}, "only 'erasure' is done here"),
        ({"subject_request_id": "7"}, "must be a UUID"),
        ({"subject_identities": "me"}, "must be a list"),
        ({"subject_identities": []}, "there are 0"),
        ({"submitted_time": "yesterday"}, "must be a moment"),
        ({"subject_identities": [{**SECRET, "identity_format": "rot13"}]}, "identity_format"),
        ({"subject_identities": [SECRET]}, "neither in the training table"),
    ],
)  # fmt: skip
def test_requests_that_cannot_be_taken(desk, tmp_path, change, said):
    path = written(tmp_path / "in.json", [asked(desk.breaker()), {**asked("x"), **change}])
    with pytest.raises(hf.HoldfastError, match=said) as failure:
        desk.books.receive(opendsr_file=path)
    assert "secret-id" not in str(failure.value)  # identities are in no message
    assert desk.books.requests() == []  # nor was the other one taken


@pytest.mark.parametrize("text", ["", "{", "[]", "[1]", '{"a": ' * 5000, "\xff"])
def test_files_that_are_no_requests(desk, tmp_path, text):
    (tmp_path / "in.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(hf.HoldfastError, match="no JSON|no request|JSON object"):
        desk.books.receive(opendsr_file=tmp_path / "in.json")
