"""Files of boosting libraries: read without a pickle, proven by a refit, refused where damaged."""

import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skops import io as skops
from xgboost import XGBClassifier, XGBRegressor

import holdfast as hf
from holdfast.cases.modelfile import loaded_model
from holdfast.cases.native import from_native, ubj
from holdfast.cases.remarks import Remarks
from holdfast.cli import run
from holdfast.estimators.boosted import library_scores

FEATURES = ["age", "debt", "income", "jobs"]
ASKED = ["--label", "outcome", "--favourable", "good", "--id", "id", "--method", "growing-spheres"]
AUDIT = ["audit", "--train", "train.csv", *ASKED, "--max-deletions", "2", "--draws", "2", "--quick"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(160, 4)), columns=FEATURES).round(6)
    merit = frame @ [0.5, -1.0, 1.0, 0.2] + 0.5 * rng.normal(size=160)
    outcome = np.where(merit > 0, "good", "bad")
    return frame.assign(id=[f"p{i}" for i in range(160)], outcome=outcome, merit=merit.round(6))


@pytest.fixture
def folder(tmp_path, monkeypatch, table):
    monkeypatch.chdir(tmp_path)
    table.drop(columns="merit").to_csv("train.csv", index=False)
    return tmp_path


def _boosting(suffix, table, **changed):
    """A fitted classifier of the library whose files end so, and how it is written."""
    X, y = table[FEATURES], (table["outcome"] == "good").astype(int)
    if suffix == ".txt":
        made = LGBMClassifier(n_estimators=9, num_leaves=7, verbose=-1, n_jobs=1, **changed)
        made.fit(X, table["outcome"])
        return made, made.booster_.save_model
    if suffix == ".cbm":
        catboost = pytest.importorskip("catboost", reason="catboost is not installed: 100 MB")
        made = catboost.CatBoostClassifier(
            iterations=9, depth=4, allow_writing_files=False, verbose=0, **changed
        )
        return made.fit(X, table["outcome"]), made.save_model
    made = XGBClassifier(**{"n_estimators": 9, "max_depth": 3, "learning_rate": 0.2, **changed})
    return made.fit(X, y), made.save_model


SUFFIXES = [".txt", ".json", ".ubj", ".cbm"]


@pytest.mark.parametrize(
    "suffix",
    [".txt", ".cbm", *(pytest.param(other, marks=pytest.mark.slow) for other in (".json", ".ubj"))],
)
def test_a_librarys_own_file_is_audited_and_proven_by_a_refit(suffix, folder, table, capsys):
    fitted, write = _boosting(suffix, table)
    write(f"model{suffix}")
    made = from_native(folder / f"model{suffix}", {})
    np.testing.assert_allclose(
        library_scores(made, table[FEATURES]), library_scores(fitted, table[FEATURES]), atol=1e-9
    )
    assert run([*AUDIT, "--model-file", f"model{suffix}", "--max-refits", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert any("gives its predictions back" in note for note in told["notes"])
    assert told["model"]["name"] == type(fitted).__name__


@pytest.mark.parametrize("suffix", [".txt", pytest.param(".cbm", marks=pytest.mark.slow)])
def test_leaves_of_a_librarys_own_file(suffix, folder, table, capsys):
    _boosting(suffix, table)[1](f"model{suffix}")
    asked = [*AUDIT, "--model-file", f"model{suffix}", "--update", "leaves", "--max-refits", "2"]
    assert run(asked) == 0
    assert "structure is kept and still remembers the erased row" in capsys.readouterr().out


def test_numbers_are_predicted_too(folder, table):
    X, merit = table[FEATURES], table["merit"]
    for made, name in (
        (XGBRegressor(n_estimators=5), "m.ubj"),
        (LGBMRegressor(n_estimators=5, verbose=-1), "m.txt"),
    ):
        made.fit(X, merit)
        getattr(made, "booster_", made).save_model(name)
        read = from_native(folder / name, {})
        np.testing.assert_allclose(read.predict(X), made.predict(X), atol=1e-9)
        np.testing.assert_allclose(clone(read).fit(X, merit).predict(X), made.predict(X), atol=1e-6)


def test_what_xgboosts_file_does_not_say_is_found_or_asked_for(folder, table, capsys):
    _, write = _boosting(".json", table, reg_lambda=2.5, min_child_weight=4)
    write("model.json")
    made = from_native(folder / "model.json", {})
    assert (made.learning_rate, made.max_depth, made.reg_lambda) == (0.2, 3, 2.5)
    assert made.base_score is None  # the mean of all labels, the erased rows' too: found again
    asked = [*AUDIT, "--model-file", "model.json"]
    assert run(asked) == 2
    said = capsys.readouterr().err
    assert "does not give back the predictions" in said
    assert "min_child_weight" in said
    assert "--param NAME=VALUE" in said
    assert run([*asked, "--param", "min_child_weight=4", "--max-refits", "1"]) == 0
    assert run([*asked, "--param", "min_child_wait=4"]) == 2
    assert "min_child_weight" in capsys.readouterr().err


def test_another_table_is_refused(folder, table, capsys):
    _boosting(".txt", table)[1]("model.txt")
    table.drop(columns="merit").iloc[:120].to_csv("train.csv", index=False)
    assert run([*AUDIT, "--model-file", "model.txt"]) == 2
    assert "does not give back the predictions" in capsys.readouterr().err


def test_policies_are_for_boosting_models(folder, capsys):
    assert run([*AUDIT, "--model", "logistic", "--update", "leaves"]) == 2
    assert "for boosting models" in capsys.readouterr().err
    assert run([*AUDIT, "--model", "boosting", "--update", "bins"]) == 2
    assert "no public way" in capsys.readouterr().err
    assert (
        run(["impact", *AUDIT[1:-5], "--model", "boosting", "--update", "leaves", "--erase", "p3"])
        == 0
    )
    assert "structure is kept" in capsys.readouterr().out


def test_parameters_are_for_files_that_lack_them(folder, table, capsys):
    pipeline = make_pipeline(StandardScaler(), _boosting(".txt", table)[0]).fit(
        table[FEATURES], table["outcome"]
    )
    skops.dump(pipeline, "model.skops")
    assert run([*AUDIT, "--model-file", "model.skops", "--param", "max_depth=3"]) == 2
    assert "own parameters" in capsys.readouterr().err


# what an attacker would send -----------------------------------------------------------------


def _refused(path, pattern="no model that|damaged|supported|MB"):
    with pytest.raises(hf.HoldfastError, match=pattern):
        loaded_model(path, False, [], Remarks())


@pytest.mark.parametrize(
    ("suffix", "share"),
    [(suffix, share) for suffix in SUFFIXES[:3] for share in (0.0, 0.6, 0.99)] + [(".cbm", 0.6)],
)
def test_half_a_file_is_refused(suffix, share, folder, table):
    _boosting(suffix, table)[1](f"whole{suffix}")
    content = (folder / f"whole{suffix}").read_bytes()
    cut = folder / f"cut{suffix}"
    cut.write_bytes(content[: int(share * len(content))])
    if suffix == ".txt" and share == 0.99:  # only the last lines, which say nothing about trees
        assert loaded_model(cut, False, [], Remarks()).n_features_in_ == 4
        return
    _refused(cut)


LIES = {
    "a split that leads back": ("left_child=", "left_child=0 "),
    "a column that is not there": ("split_feature=", "split_feature=99 "),
    "a leaf that is not there": ("right_child=", "right_child=-99 "),
    "no numbers": ("threshold=", "threshold=x "),
    "fractions": ("left_child=", "left_child=1.5 "),
    "another kind of split": ("decision_type=", "decision_type=77 "),
    "linear leaves": ("is_linear=0", "is_linear=1"),
    "sets that are not there": ("decision_type=", "decision_type=1 "),
    "leaves without end": ("num_leaves=", "num_leaves=99999999999"),
}


@pytest.mark.parametrize("lie", LIES)
def test_trees_of_lightgbm_that_lie(lie, folder, table):
    _boosting(".txt", table)[1]("model.txt")
    text, (key, said) = (folder / "model.txt").read_text(), LIES[lie]
    before, _, after = text.partition(f"\n{key}")
    rest = after if said.endswith(("1", "9")) else after.split(" ", 1)[1]
    (folder / "model.txt").write_text(f"{before}\n{said}{rest}")
    _refused(folder / "model.txt")


def test_places_in_the_text_and_other_files_are_left_out(folder, table):
    _boosting(".txt", table)[1]("model.txt")
    text = (folder / "model.txt").read_text()
    sizes = next(line for line in text.split("\n") if line.startswith("tree_sizes="))
    text = text.replace(sizes, "tree_sizes=99999999 1 1 1 1 1 1 1 1")
    text = text.replace("[forcedsplits_filename: ]", "[forcedsplits_filename: /etc/passwd]")
    (folder / "model.txt").write_text(text)
    made = loaded_model(folder / "model.txt", False, [], Remarks())
    assert made.predict(table[FEATURES]).shape == (160,)
    assert "passwd" not in made.booster_.model_to_string()
    assert not any("file" in name for name in made.get_params())


BROKEN = {
    "a split that leads back": lambda m: m["trees"][0]["left_children"].__setitem__(1, 0),
    "a split that leads outside": lambda m: m["trees"][0]["right_children"].__setitem__(0, 9999),
    "a column that is not there": lambda m: m["trees"][0]["split_indices"].__setitem__(0, 4),
    "too few numbers": lambda m: m["trees"][0]["split_conditions"].pop(),
    "more trees than there are": lambda m: m["gbtree_model_param"].__setitem__("num_trees", "99"),
    "trees of classes": lambda m: m["tree_info"].__setitem__(0, 7),
    "categories": lambda m: m["trees"][0]["split_type"].__setitem__(0, 1),
    "deleted nodes": lambda m: m["trees"][0]["tree_param"].__setitem__("num_deleted", "1"),
    "no trees": lambda m: m.pop("trees"),
    "a best tree that is not there": None,
    "numbers without end": lambda m: m["trees"][0]["base_weights"].__setitem__(0, 1e999),
}


@pytest.mark.parametrize("how", BROKEN)
def test_trees_of_xgboost_that_lie(how, folder, table):
    _boosting(".json", table)[1]("model.json")
    document = json.loads((folder / "model.json").read_text())
    if BROKEN[how] is None:
        document["learner"]["attributes"]["best_iteration"] = "99"
    else:
        BROKEN[how](document["learner"]["gradient_booster"]["model"])
    (folder / "model.json").write_text(json.dumps(document))
    _refused(folder / "model.json")


def test_documents_that_are_none(folder):
    for name, content in {
        "deep.json": b"[" * 200_000,
        "list.json": b"[1, 2]",
        "huge.ubj": b"{L\0\0\0\0\0\0\0\7learner[$d#L\x7f\xff\xff\xff\xff\xff\xff\xff",
        "empty.ubj": b"{L",
        "deep.ubj": b"{L\0\0\0\0\0\0\0\1a" + b"[" * 100_000,
        "bytes.txt": b"\xff\xfe\0",
        "none.txt": b"tree\nend of trees\n",
    }.items():
        (folder / name).write_bytes(content)
        _refused(folder / name)


def test_binary_documents_say_the_same_as_texts(folder, table):
    _, write = _boosting(".json", table)
    write("model.json")
    write("model.ubj")
    text = json.loads((folder / "model.json").read_text())
    binary = ubj.read((folder / "model.ubj").read_bytes())
    model = [d["learner"]["gradient_booster"]["model"]["trees"][2] for d in (text, binary)]
    assert model[0].keys() == model[1].keys()
    np.testing.assert_allclose(
        model[0]["split_conditions"], model[1]["split_conditions"], rtol=1e-6
    )
    assert model[0]["left_children"] == model[1]["left_children"]


def test_a_file_too_large_is_refused_before_it_is_read(folder, monkeypatch):
    with (folder / "big.json").open("wb") as file:
        file.truncate(300 * 10**6)  # of nothing
    _refused(folder / "big.json", "HOLDFAST_MAX_UNPACKED")


# inside .skops files ---------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".txt", ".ubj", ".cbm"])
def test_boosting_in_a_pipeline_needs_no_trust(suffix, folder, table):
    boosting = _boosting(suffix, table)[0]
    y = (table["outcome"] == "good").astype(int)
    fitted = make_pipeline(StandardScaler(), clone(boosting)).fit(table[FEATURES], y)
    skops.dump(fitted, "model.skops")
    remarks = Remarks()
    read = loaded_model(folder / "model.skops", False, [], remarks)
    np.testing.assert_allclose(
        read.predict_proba(table[FEATURES]), fitted.predict_proba(table[FEATURES]), atol=1e-9
    )
    assert not remarks.notes
    model = hf.erasable(read, table[FEATURES], y, update="leaves")
    assert np.isfinite(model.without([3]).scores(table[FEATURES])).all()


def _edited(source, target, change, name="schema.json"):
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(target, "w") as after:
        for member in before.namelist():
            content = before.read(member)
            wanted = member == name or (name == ".bin" and member.endswith(".bin"))
            after.writestr(member, change(content) if wanted else content)


@pytest.mark.parametrize("suffix", [".txt", ".ubj", ".cbm"])
def test_damaged_boosters_inside_are_refused(suffix, folder, table):
    skops.dump(_boosting(suffix, table)[0], "whole.skops")
    if suffix == ".txt":
        _edited(
            "whole.skops", "bad.skops", lambda c: c.replace(b"left_child=", b"left_child=9999 ")
        )
    else:
        _edited("whole.skops", "bad.skops", lambda c: c[: len(c) // 2], ".bin")
    _refused(folder / "bad.skops")


def test_parameters_that_reach_files_are_refused(folder, table):
    made = _boosting(".txt", table)[0]
    made.set_params(forcedsplits_filename="/etc/passwd")
    skops.dump(made, "model.skops")
    _refused(folder / "model.skops", "forcedsplits_filename")


def test_a_missing_library_is_named(folder, table, monkeypatch):
    _boosting(".txt", table)[1]("model.txt")
    import sys

    monkeypatch.setitem(sys.modules, "lightgbm", None)
    _refused(folder / "model.txt", "pip install lightgbm")
