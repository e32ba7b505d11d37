"""What a client checks before it goes on: it takes the server's word for nothing that it can see for itself."""

from __future__ import annotations

from collections.abc import Mapping

from sordino.aggregate.secure.errors import BadSignature, BothShares, KeySwapped, Malformed, SplitView, TooFewClients
from sordino.aggregate.secure.keys import verify
from sordino.aggregate.secure.messages import Consent, Entry, Request
from sordino.aggregate.secure.terms import Terms
from sordino.aggregate.secure.view import View
from sordino.aggregate.secure.wire import Kind, fingerprint
from sordino.types import BoolArray


def check_enough(terms: Terms, clients: int) -> None:
    """Aborts a round that is left with too few clients."""
    if clients < terms.smallest_cohort:
        raise TooFewClients(
            f"{clients} clients are left in round {terms.round_} and {terms.smallest_cohort} are needed: "
            "nothing is released; ask more clients, or tolerate fewer"
        )


def check_flags(view: View, flags: BoolArray) -> BoolArray:
    """Returns a list of clients that is as long as the roster."""
    if len(flags) != view.size:
        raise Malformed(f"a list of {len(flags)} clients came where the roster has {view.size}")
    return flags


def check_roster(view: View, own: Entry, registry: Mapping[int, bytes] | None) -> None:
    """Refuses a key list that lacks our own entry, repeats one, or holds keys that a neighbour did not sign.

    Only neighbours' keys are ever used. So each client checks its own neighbours, and together they check everybody.
    """
    check_enough(view.terms, view.size)
    if own not in view.roster.entries:
        raise KeySwapped(f"the roster does not hold the keys that client {own.client} advertised: do not go on")
    keys = [key for entry in view.roster.entries for key in (entry.keys.share_key, entry.keys.mask_key)]
    if len(set(keys)) != len(keys):
        raise KeySwapped("two keys in the roster are the same: somebody was given another client's key")
    for place in view.graph.neighbours(view.places[own.client]).tolist():
        entry = view.roster.entries[place]
        if registry is not None and registry.get(entry.client) != entry.keys.identity:
            raise KeySwapped(f"the roster's identity of client {entry.client} is not the registered one: do not go on")
        signed = fingerprint(view.terms, Kind.ADVERTISE, entry.client, entry.keys.pack())
        try:
            verify(entry.keys.identity, entry.signature, signed, entry.client)
        except BadSignature as error:
            raise KeySwapped(f"client {entry.client} did not sign its keys in the roster: do not go on") from error


def check_request(view: View, place: int, sharers: BoolArray, alive: BoolArray, asked: Request) -> None:
    """Refuses to unmask anything but the story that we consented to, and that enough holders around us did too."""
    seeds_of, keys_of = check_flags(view, asked.seeds_of), check_flags(view, asked.keys_of)
    if (seeds_of & keys_of).any():
        raise BothShares("the server asked for both secrets of one client, which would unmask its input: do not go on")
    if (seeds_of != alive).any() or (keys_of != (sharers & ~alive)).any():
        raise SplitView("the server asks for other secrets than the agreed survivors call for: do not go on")
    agreed = Consent(view.agreed(sharers, alive)).pack()
    near = set(view.near(place, alive).tolist())
    for other, signature in asked.consents.items():
        if other not in near:
            raise SplitView("a consent comes from somebody who is no surviving neighbour: do not go on")
        entry = view.roster.entries[other]
        try:
            verify(entry.keys.identity, signature, fingerprint(view.terms, Kind.CONSENT, entry.client, agreed), other)
        except BadSignature as error:
            raise SplitView(f"client {entry.client} was told another story of who is alive: do not go on") from error
    if len(asked.consents) + 1 < view.terms.threshold:
        raise SplitView(
            f"only {len(asked.consents) + 1} of the clients around this one agree on who is alive, and "
            f"{view.terms.threshold} are needed: do not go on"
        )
