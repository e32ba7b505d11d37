"""Boxes: a client's shares, sealed for their holders; and complaints about them that pin the blame."""

from __future__ import annotations

import hashlib

from sordino.aggregate.secure.errors import BadSignature, KeySwapped, ShareRejected, SplitView
from sordino.aggregate.secure.keys import KEY, Agreement, Identity, seal, unseal, verify
from sordino.aggregate.secure.messages import DIGEST
from sordino.aggregate.secure.view import RosterView, share_digests


def make_box(view: RosterView, key: Agreement, sender: int, recipient: int, secrets: bytes) -> bytes:
    """Returns what a client sends to a holder, given by places: a key that is made for this box, and both shares."""
    agreed = key.with_(view.roster.entry(recipient).keys.share_key)
    return key.public + seal(agreed, view.fingerprint, view.client(sender), view.client(recipient), secrets)


def open_box(view: RosterView, agreed: bytes, sender: int, recipient: int, digests: bytes, box: bytes) -> bytes:
    """Returns the two shares in a box; raises `ShareRejected` unless they are what the sender's digests say."""
    secrets = unseal(agreed, view.fingerprint, view.client(sender), view.client(recipient), box[KEY:])
    if share_digests(view, view.client(sender), view.client(recipient), secrets) != digests:
        raise ShareRejected(f"the shares from client {view.client(sender)} are not those that it committed to")
    return secrets


def complaint(view: RosterView, accuser: int, accused: int, came: bytes) -> bytes:
    """Returns what a holder signs when a box (with its digests) is useless to it."""
    who = view.client(accuser).to_bytes(8, "little") + view.client(accused).to_bytes(8, "little")
    return hashlib.sha256(b"complaint" + view.fingerprint + who + hashlib.sha256(came).digest()).digest()


def sign_complaint(view: RosterView, accuser: int, accused: int, came: bytes, identity: Identity) -> bytes:
    """Returns a complaint: the digest of what came, and the accuser's signature."""
    return hashlib.sha256(came).digest() + identity.sign(complaint(view, accuser, accused, came))


def check_complaint(
    view: RosterView, accuser: int, accused: int, sent: bytes, signature: bytes, identity: bytes
) -> None:
    """Raises `SplitView` unless the accuser complains about the very bytes that the accused has sent.

    So a server that damages boxes on the way can make nobody open them: an honest holder never complains about what an
    honest client has sent.
    """
    try:
        verify(identity, signature, complaint(view, accuser, accused, sent), view.client(accuser))
    except BadSignature as error:
        raise SplitView(
            f"client {view.client(accuser)} does not complain about what client {view.client(accused)} sent: "
            "do not go on"
        ) from error


def justified(view: RosterView, accused: int, accuser: int, sent: bytes, opening: bytes | None) -> bool:
    """Whether a complaint is right: the accused cannot show, by the box's own key, that it holds what it should."""
    if opening is None:
        return True
    digests, box, key = sent[:DIGEST], sent[DIGEST:], Agreement.of(opening)
    if key.public != box[:KEY]:
        return True
    try:
        agreed = key.with_(view.roster.entry(accuser).keys.share_key)
        open_box(view, agreed, accused, accuser, digests, box)
    except (ShareRejected, KeySwapped):
        return True
    return False
