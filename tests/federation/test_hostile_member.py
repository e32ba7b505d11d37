"""A member that signs whatever it likes: its messages are left out, and the others' run goes on and ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from safetensors.torch import save

from federation.village import Village, simulated, village
from sordino.account.ledger.ledger import Ledger
from sordino.aggregate.secure.keys import Identity
from sordino.federation import sizes
from sordino.federation.grid import InProcessGrid
from sordino.federation.messages import Parcel
from sordino.federation.receipts import Receipt, pack
from sordino.federation.status import FederationStatus
from sordino.messages import from_bytes, to_bytes
from sordino.runs.folder import RunFolder
from sordino.stages import Shielded

HOSTILE = 2
SMALL = ("partition.clients=6", "run.rounds=2", "budget.epsilon=50", "aggregate.tolerance=0.4")


def forged(here: Village, stage: str, change: Callable[[Parcel], Mapping[str, bytes]]) -> FederationStatus:
    """Plays a run in which one member answers a stage with other parts, signed with its own key."""
    grid, honest = here.grid(), here.grid().apps[100 + HOSTILE]

    def app(message: Message, context: Context) -> Message:
        reply = honest(message, context)
        if message.metadata.message_type != f"query.{stage}":
            return reply
        parcel = Parcel.parse(reply.content, request=False)
        made = replace(parcel, parts=change(parcel)).sealed(here.nodes[HOSTILE].identity)
        return Message(made.pack(), reply_to=message)

    grid.apps[100 + HOSTILE] = app  # type: ignore[assignment]
    here.deployment(grid).play()
    status = FederationStatus.read(here.folder.status_file)
    assert status is not None
    return status


def message(change: Callable[[Shielded], Shielded]) -> Callable[[Parcel], Mapping[str, bytes]]:
    return lambda parcel: {"message": to_bytes(change(from_bytes(Shielded, parcel.part("message"))))}


MESSAGES: dict[str, tuple[str, Callable[[Shielded], Shielded]]] = {
    "says that it has no noise": (
        "fed_ldp",
        lambda m: replace(m, squared_multipliers=torch.zeros(1, dtype=torch.float64)),
    ),
    "weighs a million": ("fed_ldp", lambda m: replace(m, weights=torch.full((1,), 1e6))),
    "has a side column of another shape": (
        "fed_cad",
        lambda m: replace(m, side={name: torch.zeros(1, 7, dtype=torch.float64) for name in m.side}),
    ),
    "has a side column that nobody asked for": ("fed_ldp", lambda m: replace(m, side={"more": torch.zeros(1, 3)})),
    "is longer than its noise explains": ("fed_ldp", lambda m: replace(m, rows=torch.full_like(m.rows, 1e30))),
    "is longer than the bound of the round": ("dp_fedavg", lambda m: replace(m, rows=m.rows * 1e3)),
    "is of complex numbers": ("fed_ldp", lambda m: replace(m, rows=m.rows.to(torch.complex64))),
    "is of numbers with eight bits": ("fed_ldp", lambda m: replace(m, rows=m.rows.to(torch.float8_e4m3fn))),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_a_message_that_is_none_of_the_rounds_is_left_out(case: str, tmp_path: Path) -> None:
    mechanism, change = MESSAGES[case]
    recipe, data = simulated(*SMALL, f"mechanism.name={mechanism}")
    status = forged(village(tmp_path, recipe, data), "contribute", message(change))
    assert (status.state, status.round) == ("stopped", 2)
    assert any(event.startswith("node-2") and "left out" in event for event in status.events), status.events
    assert not [event for event in status.events if "aborted" in event]


DEEP = b"[" * 100_000
"""JSON that nests deeper than any reader goes."""
RAW: dict[str, dict[str, Any]] = {
    "head that nests": {"head": DEEP},
    "signature that is text": {"signature": "signed"},
    "signature that is a list": {"signature": [1, 2]},
}


@pytest.mark.parametrize("stage", ["hello", "contribute"])
@pytest.mark.parametrize("case", RAW)
def test_bytes_that_nobody_can_read_stop_nobody(case: str, stage: str, tmp_path: Path) -> None:
    recipe, data = simulated(*SMALL, "mechanism.name=fed_ldp", "run.rounds=1")
    here = village(tmp_path, recipe, data)
    grid, honest = here.grid(), here.grid().apps[100 + HOSTILE]

    def app(message: Message, context: Context) -> Message:
        reply = honest(message, context)
        if message.metadata.message_type != f"query.{stage}":
            return reply
        told = {**reply.content.config_records["sordino"], **RAW[case]}
        return Message(RecordDict({"sordino": ConfigRecord(told)}), reply_to=message)

    grid.apps[100 + HOSTILE] = app  # type: ignore[assignment]
    here.deployment(grid).play()
    status = FederationStatus.read(here.folder.status_file)
    assert status is not None and (status.state, status.round) == ("stopped", 1)
    assert not [event for event in status.events if "aborted" in event]
    assert any("cannot be read" in event or "else than bytes" in event for event in status.events)


@pytest.mark.parametrize("stage", ["mask", "unmask"])
def test_noise_that_is_stated_as_nesting_json_is_left_out(stage: str, tmp_path: Path) -> None:
    recipe, data = simulated(*SMALL, "mechanism.name=dropout_robust", "run.rounds=1")
    status = forged(village(tmp_path, recipe, data), stage, lambda parcel: {**parcel.parts, "stated": DEEP})
    assert (status.state, status.round) == ("stopped", 1)
    assert any(event.startswith("node-2") and "cannot be read" in event for event in status.events), status.events


@pytest.mark.parametrize("stage", ["mask", "unmask"])
@pytest.mark.parametrize("value", [b"0.5", b"1e300"])
def test_a_member_that_states_more_noise_than_it_can_have_ends_nobodys_run(
    stage: str, value: bytes, tmp_path: Path
) -> None:
    """Who said that it took back more than its share made the release look dearer than reserved: the run failed."""
    recipe, data = simulated(*SMALL, "mechanism.name=dropout_robust")
    here = village(tmp_path, recipe, data)
    status = forged(here, stage, lambda parcel: {**parcel.parts, "stated": value})
    assert (status.state, status.round) == ("stopped", 2)
    told = [line["noise_stddev"] for line in RunFolder(here.folder.run_dir).metrics()]
    planned = here.deployment().context.mechanism.adapter.start()
    assert all(0 < one <= planned.noise_multiplier * planned.clip_norm for one in told)


def beside(**columns: list[float]) -> Callable[[Parcel], Mapping[str, bytes]]:
    """A message with other numbers in its side columns."""

    def change(told: Shielded) -> Shielded:
        side = {
            name: torch.tensor([columns.get(name, was.tolist()[0])], dtype=was.dtype) for name, was in told.side.items()
        }
        return replace(told, side=side)

    return message(change)


SIDES: dict[str, tuple[str, Callable[[Parcel], Mapping[str, bytes]]]] = {
    "that 10^38 clients were clipped": ("dp_fedavg_adaptive", beside(unclipped=[-1e38])),
    "that 10^4 clients were not clipped": ("dp_fedavg_adaptive", beside(unclipped=[1e4])),
    "a negative variance": ("fed_cad", beside(variance=[-1e9])),
    "that it is as many clients as it likes": ("fed_cad mechanism.obsolete=0.4", beside(gap=[1.0, -4.0])),
    "that it moved without end": ("fed_cad mechanism.obsolete=0.4", beside(gap=[1e300, 1.0])),
    "that everything was right": (
        "a_dpfl mechanism.validation=clients mechanism.adjust_every=1",
        beside(right=[1e30]),
    ),
}


@pytest.mark.parametrize("case", SIDES)
def test_numbers_beside_a_message_that_no_member_has_are_left_out(case: str, tmp_path: Path) -> None:
    """They were added up as they came: a clip norm of 10^38, or of nothing, and a root of a negative number."""
    mechanism, change = SIDES[case]
    name, *own = mechanism.split()
    recipe, data = simulated(*SMALL, f"mechanism.name={name}", *own)
    status = forged(village(tmp_path, recipe, data), "contribute", change)
    assert (status.state, status.round) == ("stopped", 2)
    assert any(event.startswith("node-2") and "no member has" in event for event in status.events), status.events


class Stumbling(InProcessGrid):
    """Reads answers as Flower does: over one that is malformed it fails, and those read before are gone."""

    malformed = ""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        came = list(super().pull_messages(message_ids))
        for reply in came:
            hostile = Parcel.parse(reply.content, request=False).node == HOSTILE
            if hostile and reply.metadata.message_type == f"query.{self.malformed}":
                raise ValueError("Mismatch in children object IDs")
        return came


@pytest.mark.parametrize("stage", ["hello", "contribute"])
def test_an_answer_that_flower_itself_cannot_read_costs_others_one_round_at_most(stage: str, tmp_path: Path) -> None:
    recipe, data = simulated(*SMALL, "mechanism.name=fed_ldp", "run.rounds=3")
    here = village(tmp_path, recipe, data)
    plain = here.grid()
    grid = Stumbling(plain.apps, plain.node_configs, plain.fates)
    grid.malformed = stage
    here.deployment(grid, least=3).play()
    lines = RunFolder(here.folder.run_dir).metrics()
    assert [line["round"] for line in lines] == [1, 2, 3]
    assert lines[2]["survivors"] == 5 and "aborted" not in lines[2]
    status = FederationStatus.read(here.folder.status_file)
    assert status is not None and any("Flower cannot read" in event for event in status.events)


def test_a_grid_that_reads_nothing_at_all_is_no_members_doing(tmp_path: Path) -> None:
    recipe, data = simulated(*SMALL, "mechanism.name=fed_ldp", "run.rounds=1")
    here = village(tmp_path, recipe, data)
    grid = here.grid()

    def fails(_: Iterable[str]) -> Iterable[Message]:
        raise ValueError("nothing works")

    grid.pull_messages = fails  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="nothing works"):
        here.deployment(grid).play()


def test_a_greeting_without_its_parts_stops_nobody(tmp_path: Path) -> None:
    recipe, data = simulated(*SMALL, "mechanism.name=fed_ldp")
    status = forged(village(tmp_path, recipe, data), "hello", lambda parcel: {})
    assert not [event for event in status.events if "aborted" in event]
    assert status.state == "stopped"


LIES = {
    "two numbers": b"[999, 0]",
    "nothing that can be read": b"\xff",
    "a request of its own making": pack([Receipt.of(Parcel("contribute", "run", 999, 0, HOSTILE).sealed(Identity()))]),
    "a million of them": pack([Receipt("x", "00")] * 65),
}


@pytest.mark.parametrize("case", LIES)
def test_a_member_that_says_it_has_paid_for_what_nobody_asked_for_stops_nobody(case: str, tmp_path: Path) -> None:
    """Before, two numbers that a member made up ended everybody's run, until the operator dismissed it."""
    recipe, data = simulated(*SMALL, "mechanism.name=fed_ldp", "run.rounds=1")
    status = forged(village(tmp_path, recipe, data), "hello", lambda parcel: {**parcel.parts, "paid": LIES[case]})
    assert status.state == "stopped"
    assert status.node(HOSTILE).state == "refused"
    assert "left out" in status.node(HOSTILE).note


def test_an_answer_that_is_larger_than_any_of_the_run_is_not_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, data = simulated(*SMALL, "mechanism.name=fed_ldp", "run.rounds=1")
    monkeypatch.setattr(sizes, "_OVERHEAD", 1 << 14)  # else a test would send 64 MiB
    status = forged(village(tmp_path, recipe, data), "contribute", lambda one: {**one.parts, "more": bytes(1 << 16)})
    assert status.state == "stopped"
    assert any(event.startswith("node-2") and "none of this run has more" in event for event in status.events)


TOLD = {
    "nothing": b"",
    "other widths": save({"told": torch.zeros(1, 3, dtype=torch.float64)}),
    "no numbers": save({"told": torch.full((1, 10), torch.nan, dtype=torch.float64)}),
    "another name": save({"x": torch.zeros(1, 10, dtype=torch.float64)}),
    "a header that nests": len(DEEP).to_bytes(8, "little") + DEEP,
    "more records than there are": save({"told": torch.full((1, 10), 1e30, dtype=torch.float64)}),
}


@pytest.mark.parametrize("case", TOLD)
def test_an_opening_that_is_none_is_left_out(case: str, tmp_path: Path) -> None:
    recipe, data = simulated(*SMALL, "mechanism.name=a_dpfl", "run.rounds=1")
    status = forged(village(tmp_path, recipe, data), "tell", lambda parcel: {"told": TOLD[case]})
    assert status.state == "stopped"
    assert any(event.startswith("node-2") and "left out" in event for event in status.events), status.events


def test_a_refusal_writes_no_more_than_a_line_on_the_operators_terminal(tmp_path: Path) -> None:
    recipe, data = simulated(*SMALL, "mechanism.name=fed_ldp", "run.rounds=1")
    here = village(tmp_path, recipe, data)
    grid, honest = here.grid(), here.grid().apps[100 + HOSTILE]

    def app(message: Message, context: Context) -> Message:
        if message.metadata.message_type == "query.hello":
            return honest(message, context)
        parcel = Parcel.parse(message.content, request=True)
        return Message(parcel.answer(refused="\x1b[2J\nround 9 of 9: fine" + "x" * 9999).pack(), reply_to=message)

    grid.apps[100 + HOSTILE] = app  # type: ignore[assignment]
    here.deployment(grid).play()
    status = FederationStatus.read(here.folder.status_file)
    assert status is not None
    (told,) = [event for event in status.events if "fine" in event]
    assert told.isprintable()
    assert len(told) < 500


def test_a_refusal_that_the_superlink_made_up_saves_nobody_the_cost(tmp_path: Path) -> None:
    """The message left its node, and the SuperLink saw it: the server's ledger must not forget it."""
    recipe, data = simulated(*SMALL, "mechanism.name=fed_ldp", "run.rounds=1")
    here = village(tmp_path, recipe, data)
    grid, honest = here.grid(), here.grid().apps[100 + HOSTILE]

    def superlink(message: Message, context: Context) -> Message:
        reply = honest(message, context)
        if message.metadata.message_type != "query.contribute":
            return reply
        again = Parcel.parse(honest(message, context).content, request=False)  # delivered once more: it says no
        assert "answered already" in again.refused
        return Message(again.pack(), reply_to=message)

    grid.apps[100 + HOSTILE] = superlink  # type: ignore[assignment]
    here.deployment(grid).play()
    with Ledger.open(here.deployment().run_folder.ledger, write=False) as ledger:
        (entry,) = ledger.entries
        assert entry.participants.contains(np.array([HOSTILE])).all()


def test_a_refusal_of_the_member_itself_costs_nothing(tmp_path: Path) -> None:
    recipe, data = simulated(*SMALL, "mechanism.name=fed_ldp", "run.rounds=1")
    here = village(tmp_path, recipe, data)
    node = here.nodes[HOSTILE]
    told = node.policy.model_copy(update={"budget": node.policy.budget.model_copy(update={"epsilon": 0.01})})
    node.policy_file.write_text(told.to_toml())
    here.deployment().play()
    with Ledger.open(here.deployment().run_folder.ledger, write=False) as ledger:
        (entry,) = ledger.entries
        assert not entry.participants.contains(np.array([HOSTILE])).any()
