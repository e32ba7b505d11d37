"""Texts as errors show them: whatever somebody wrote is quoted, and nothing of it fills the screen."""

import tomllib

from sordino.printable import listed, quoted, toml_key


def test_a_long_text_is_cut_in_the_middle_and_its_length_is_told() -> None:
    assert quoted("fever") == "'fever'"
    assert quoted("7" * 400) == f"'{'7' * 23}…{'7' * 23}' (400 characters)"
    assert quoted([0] * 1000) == "[0, 0, 0, 0, 0, 0, 0, 0,… 0, 0, 0, 0, 0, 0, 0, 0]" + " (3,000 characters in all)"
    assert len(quoted("x\n" * 5000)) < 100


def test_names_in_a_row_can_be_told_apart() -> None:
    assert listed(["age", "chest pain, type", 'the "ST"']) == "age, 'chest pain, type', 'the \"ST\"'"
    assert listed([]) == "none"
    assert listed([f"c{k}" for k in range(5000)]).endswith("c38, c39, … (5,000 in all)")


def test_a_name_can_be_copied_into_a_recipe() -> None:
    assert toml_key("sex") == "sex"
    for name in ("chest pain, type", "", 'the "ST"', "Größe", "a.b", "back\\slash"):
        assert tomllib.loads(f"{toml_key(name)} = 1") == {name: 1}
