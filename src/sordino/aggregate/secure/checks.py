"""What a client checks before it goes on: it takes the server's word for nothing that it can see for itself.

Each check has a name because the checker (`tests/aggregate/secure/checker`) takes them out one by one, and must then
find the attack that they prevent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sordino.aggregate.secure.cores import on_all_cores
from sordino.aggregate.secure.errors import BadSignature, KeySwapped, Malformed, SplitView, TooFewClients
from sordino.aggregate.secure.keys import verify
from sordino.aggregate.secure.messages import RosterEntry
from sordino.aggregate.secure.terms import SumTerms
from sordino.aggregate.secure.view import RosterView
from sordino.aggregate.secure.wire import MessageKind, fingerprint
from sordino.types import BoolArray, IntArray

KeyRegistry = Mapping[int, bytes]
"""Public signing keys by client id, obtained from elsewhere than the server."""


def check_enough(terms: SumTerms, clients: int) -> None:
    """Aborts a round that is left with too few clients."""
    if clients < terms.consents:
        raise TooFewClients(
            f"{clients} clients are left in round {terms.round_} and {terms.consents} are needed: "
            "nothing is released; ask more clients, or tolerate fewer"
        )


def check_flags(view: RosterView, flags: BoolArray) -> BoolArray:
    """Returns a list of clients that is as long as the roster."""
    if len(flags) != view.size:
        raise Malformed(f"a list of {len(flags)} clients came where the roster has {view.size}")
    return flags


def check_invited(view: RosterView) -> None:
    """Refuses a roster with somebody on it who was not invited, or with more clients than were."""
    if strangers := [client for client in view.places if client not in view.terms.invited]:
        raise KeySwapped(f"client {strangers[0]} is in the roster and was not invited: do not go on")


def check_keys(view: RosterView, own: RosterEntry) -> None:
    """Refuses a key list that lacks our own entry, or in which a key is not canonical or stands twice."""
    place = view.places.get(own.client)
    if place is None or view.roster.entry(place) != own:
        raise KeySwapped(f"the roster does not hold the keys that client {own.client} advertised: do not go on")
    if not view.roster.proper:
        raise KeySwapped("a key in the roster stands twice, or is not canonical: somebody was given another's key")


def check_signed(view: RosterView, places: Iterable[int], registry: KeyRegistry) -> None:
    """Refuses keys that their registered owner did not sign. Only keys that were checked so are ever used."""

    def check(place: int) -> None:
        entry = view.roster.entry(place)
        signed = fingerprint(view.terms, MessageKind.ADVERTISE, entry.client, entry.keys.pack())
        try:
            verify(_identity(registry, entry.client), entry.signature, signed, entry.client)
        except BadSignature as error:
            raise KeySwapped(
                f"the registered client {entry.client} did not sign its keys in the roster: do not go on"
            ) from error

    on_all_cores(check, list(places))


def check_around(terms: SumTerms, holders: IntArray, flags: BoolArray, what: str) -> None:
    """Refuses a story in which fewer than `threshold` holders of our own shares are left (ourselves included)."""
    if (around := int(flags[holders].sum())) < terms.threshold:
        raise TooFewClients(
            f"{around} holders of this client's shares {what} and {terms.threshold} are needed: do not go on"
        )


def check_consents(
    view: RosterView, story: bytes, alive: BoolArray, consents: Mapping[int, bytes], registry: KeyRegistry, own: int
) -> set[int]:
    """Returns the places of those, ourselves included, whose signature under our story we have verified."""
    if any(place >= view.size or not alive[place] for place in consents):
        raise SplitView("a consent comes from somebody who is no survivor: do not go on")

    def check(consent: tuple[int, bytes]) -> int:
        (place, signature), client = consent, view.client(consent[0])
        signed = fingerprint(view.terms, MessageKind.CONSENT, client, story)
        try:
            verify(_identity(registry, client), signature, signed, client)
        except BadSignature as error:
            raise SplitView(f"client {client} was told another story of who is alive: do not go on") from error
        return place

    return {own, *on_all_cores(check, list(consents.items()))}


def check_agreed(terms: SumTerms, verified: int) -> int:
    """Returns how many survivors are certain to be in the sum, once enough of them have consented."""
    if verified < terms.consents:
        raise SplitView(f"{verified} clients agree on who is alive, and {terms.consents} are needed: do not go on")
    return verified - terms.margin


def _identity(registry: KeyRegistry, client: int) -> bytes:
    identity = registry.get(client)
    if identity is None:
        raise KeySwapped(f"client {client} is not registered: do not go on")
    return identity
