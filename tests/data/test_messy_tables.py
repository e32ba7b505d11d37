"""Tables as people have them: words, gaps, semicolons, decimal commas, a file a hospital, columns in any order."""

import warnings

import pytest
import torch

import sordino
from sordino.cli.own import data_settings
from sordino.data import PartitionSettings, federate, load
from sordino.errors import DataError, RecipeError, SordinoWarning
from sordino.recipe import Recipe

NORTH = "\ufeffid_of,visit,age,sex,dose,num\n" + "".join(
    f"p{k},0{k % 9 + 1}.02.1988,{20 + k},{'male' if k % 2 else 'female'},{k / 10},{'ill' if k % 3 else 'well'}\n"
    for k in range(20)
)
SOUTH = "num;dose;sex;age;visit;id_of\n" + "".join(
    f"{'ill' if k % 3 else 'well'};{str(k / 10).replace('.', ',')};{'?' if k == 4 else 'male'};"
    f"{'NA' if k == 5 else 40 + k};03.02.1988;q{k}\n"
    for k in range(20)
)
SETTINGS = {"label": "num", "class_names": ["well", "ill"], "drop": ["id_of", "visit"], "test": 0.0}
SEX = {"sex": ["female", "male"]}
RANGES = {"age": (0.0, 120.0), "dose": (0.0, 2.0)}


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "north.csv").write_text(NORTH, encoding="utf-8")
    (tmp_path / "south.csv").write_text(SOUTH, encoding="utf-8")
    return tmp_path


def test_a_file_a_hospital_whatever_the_order_marks_and_words(tables):
    made = federate(
        "csv",
        file=[tables / "north.csv", tables / "south.csv"],
        partition=PartitionSettings("by_key"),
        categories=SEX,
        missing="middle",
        ranges=RANGES,
        **SETTINGS,
    )
    assert made.names == ("north", "south") and made.columns == ("age", "dose", "sex=female", "sex=male")
    assert made.train_x[3].tolist() == pytest.approx([23 / 60 - 1, 0.3 - 1, 0, 1])
    south = made.train_x[20:]
    assert south[3].tolist() == pytest.approx([43 / 60 - 1, 0.3 - 1, 0, 1])  # 0,3 with a decimal comma
    assert south[4].tolist() == pytest.approx([44 / 60 - 1, 0.4 - 1, 0, 0])  # a gap is none of the words
    assert south[5].tolist() == pytest.approx([0, 0.5 - 1, 0, 1])  # and the middle of a range


def test_a_pattern_is_all_its_files_and_gaps_may_leave_their_records_out(tables):
    records = load("csv", file=tables / "*.csv", categories=SEX, missing="leave_out", **SETTINGS)
    assert len(records.train_y) == 38 and sorted(set(records.owners.tolist())) == ["north", "south"]


def test_files_and_a_frame_are_the_same_records(tables):
    rows = [line.split(";") for line in SOUTH.strip().split("\n")]

    class Frame(dict):
        columns = rows[0]

    def value(name, text):
        if name in ("dose", "age"):
            return float("nan") if text == "NA" else float(text.replace(",", "."))
        return None if text == "?" else text

    frame = Frame({name: [value(name, row[at]) for row in rows[1:]] for at, name in enumerate(rows[0])})
    options = {"class_names": ["well", "ill"], "drop": ["id_of", "visit"], "categories": SEX, "missing": "middle"}
    one = sordino.Federation.from_dataframe(frame, "num", ranges=RANGES, test=None, **options)
    two = sordino.Federation.from_csv(tables / "south.csv", "num", ranges=RANGES, test=0.0, **options)
    order = [two.columns.index(name) for name in one.columns]
    assert torch.allclose(one.train_x, two.train_x[:, order]) and torch.equal(one.train_y, two.train_y)
    with pytest.raises(DataError, match=r"record 4 has a gap \(2 in all"):
        sordino.Federation.from_dataframe(frame, "num", ranges=RANGES, **options | {"missing": "refuse"})


def test_everything_that_is_missing_is_named_at_once(tables):
    with pytest.raises(DataError) as error:
        load("csv", file=[tables / "north.csv", tables / "south.csv"], label="num", class_names=["well", "ill"])
    said = str(error.value)
    assert "line 2: column id_of is 'p0'" in said and "(id_of, visit, sex)" in said
    assert 'sex = ["female", "male"]' in said and "in age, sex" in said and 'data.missing = "middle"' in said
    assert "dose" not in said  # a decimal comma is a number


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("a;label\n1,234;0\n", {}, r"may be 1234 or 1\.234: set data\.decimal"),
        ("a;b;label\n1,5;2.5;0\n", {}, "another decimal mark"),
        ("a,label\n\"1,5\",0\n", {}, "is '1,5', which is no number"),
        (",a,label\n0,1,0\n", {}, r"column 1 has no name .*data\.drop = \[\"\"\]"),
        ("a,a,label\n0,1,0\n", {}, "two columns 'a'"),
        ("a,label\nx,0\n", {"categories": {"a": ["y"]}}, "is 'x', which data.categories.a lacks"),
        ("a,label\nx,0\n", {"categories": {"b": ["y"]}}, "'b', which is no feature column"),
        ("a,label\nx,0\n", {"categories": {"a": ["x", "x"]}}, "each of its words once"),
        ("a,label\n1,maybe\n", {}, "if it names classes, list them in data.class_names"),
        ("0.5,1\n0.7,0\n", {}, "no column 'label' in its first line, which names 0.5, 1: set data.label"),
    ],
)  # fmt: skip
def test_what_is_doubtful_is_asked(tmp_path, text, options, said):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=said):
        load("csv", file=tmp_path / "t.csv", **options)


@pytest.mark.parametrize(
    ("row", "options"),
    [
        (f"{'7' * 400},0", {}),
        (f"{'x' * 4000},0", {}),
        (f"1,{'7' * 400}", {}),
        (f"1,{'yes' * 400}", {}),
        (f"1,{'yes' * 400}", {"class_names": ["yes", "no"]}),
        (f"{'x' * 400},0", {"categories": {"a": ["y"]}}),
        (f"1,{'7' * 400}", {"label": "l" * 4000}),
        (f"1,{'7' * 400}", {"drop": ["d" * 4000]}),
    ],
)
def test_a_cell_of_hundreds_of_characters_is_cut_where_it_is_quoted(tmp_path, row, options):
    (tmp_path / "t.csv").write_text(f"a,label\n{row}\n")
    with pytest.raises(DataError, match=r"….*0 characters\)") as error:
        load("csv", file=tmp_path / "t.csv", **options)
    assert len(str(error.value).removeprefix(str(tmp_path))) < 500


def test_what_is_proposed_can_be_copied_whatever_columns_are_called(tmp_path):
    (tmp_path / "t.csv").write_text('"chest pain, type",label\nmild,0\nsevere,1\n')
    with pytest.raises(DataError) as error:
        load("csv", file=tmp_path / "t.csv")
    said = str(error.value)
    assert "column 'chest pain, type' is 'mild'" in said and '("chest pain, type" = ["mild", "severe"], if' in said


def test_a_mark_that_was_named_is_taken(tmp_path):
    (tmp_path / "t.csv").write_text('a,b,label\n"1,234",none,0\n')
    records = load("csv", file=tmp_path / "t.csv", decimal=",", categories={"b": ["none", "some"]}, test=0.0)
    assert records.train_x[0].tolist() == pytest.approx([1.234, 1, 0])  # a declared word is no gap


def test_gaps_have_a_middle_only_in_a_range(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,label\n1,,0\n")
    with pytest.raises(DataError, match="and b has gaps and no range"):
        federate("csv", file=tmp_path / "t.csv", missing="middle", ranges={"a": (0, 1)}, test=0.0)


def test_other_letters_than_utf8_are_refused_and_never_replaced(tmp_path):
    (tmp_path / "t.csv").write_bytes("a,who,label\n1,Müller,0\n".encode("latin1"))
    with pytest.raises(DataError, match="not text in UTF-8"):
        load("csv", file=tmp_path / "t.csv", client="who")


def test_an_id_is_no_feature_without_a_word(tmp_path):
    (tmp_path / "t.csv").write_text("patient_id,paid,label\n1,2,0\n2,3,1\n")
    with pytest.warns(SordinoWarning, match="column patient_id is a feature"):
        load("csv", file=tmp_path / "t.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load("csv", file=tmp_path / "t.csv", drop=["patient_id"])  # paid is no id


def test_several_files_on_the_command_line(tables, monkeypatch):
    monkeypatch.chdir(tables)
    both = Recipe.load(None, data_settings(["north.csv", "south.csv"]))
    assert [str(file) for file in both.data.file] == ["north.csv", "south.csv"] and both.partition.kind == "by_key"
    assert str(Recipe.load(None, data_settings([str(tables)])).data.file).endswith("*.csv")
    with pytest.raises(RecipeError, match=r"only \.csv files can be several"):
        data_settings(["north.csv", "x.npz"])


def test_an_empty_name_is_not_the_folder_where_somebody_stands(tables, monkeypatch):
    monkeypatch.chdir(tables)
    with pytest.raises(RecipeError, match="--data is empty"):
        data_settings([""])


def test_owners_are_the_clients_unless_something_else_is_said(tables):
    assert Recipe.load(None, ["data.name=csv", "data.client=who"]).partition.kind == "by_key"
    said = Recipe.load(None, ["data.name=csv", "data.client=who", "partition.kind=iid"])
    assert said.partition.kind == "iid"  # and is refused where the data are loaded
