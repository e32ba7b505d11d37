"""What a new federation starts from: a recipe and a policy to edit, and what members' files of records look like."""

from __future__ import annotations

from pathlib import Path

from sordino.federation.policy import Policy, WhoPolicy
from sordino.files import PUBLIC, make_folder, replace_file

RECIPE = """# What is trained: edit it, then `sordino federation run recipe.toml --folder FOLDER`.
# `sordino recipe --explain` lists every setting.
[mechanism]
name = "dp_sgd"            # one record is protected; nobody trusts the server, which sees sums only
clip_norm = 0.5
trust = "distributed"

[public]                   # declared, since nobody can count across machines: whoever sees the model may know these
population = 8             # members, at most
records = 1600             # of all members together, about
classes = 2
shape = [10]               # of one record
# ranges = { age = [0, 120] }   # lowest and highest value of a feature: it is scaled by them

[model]
name = "linear"

[aggregate]
tolerance = 0.25           # share of the members that may vanish in a round
corrupt = 0.0              # share that may work with the server: their noise is not counted on

[budget]
epsilon = 2.0              # members' policies have 2 to begin with
delta = 1e-5

[run]
rounds = 20
"""

DATA = """age,blood_pressure,label
63,145,1
41,130,0
"""
"""A member's file of records as CSV: the same columns in the same order everywhere."""


def write_templates(folder: Path, who: WhoPolicy) -> None:
    """Writes recipe, policy and data templates: proposals, which bind nobody."""
    make_folder(folder, PUBLIC)
    policy = "# A proposal to members: each decides by its own file.\n" + Policy(who=who).to_toml()
    for name, text in (("recipe.toml", RECIPE), ("policy.toml", policy), ("records.csv", DATA)):
        replace_file(folder / name, text.encode(), PUBLIC)
