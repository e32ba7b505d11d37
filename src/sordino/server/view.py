"""What server and outsider see of a mechanism's rounds: read off its parts, so that words and promises agree."""

from __future__ import annotations

from sordino.account.certificate.view import View
from sordino.mechanism import Mechanism, Perturber


def views(mechanism: Mechanism) -> dict[str, View]:
    """Returns the views against which the mechanism's promises are made.

    **Formal guarantees**: the server selects, so it sees who was asked, who vanished and who is counted, whatever the
    trust. An outsider sees what is released, aborted rounds, the end, and `public/`: never more than the server. How
    often the client that was asked most took part stands in `public/` only where no promise rests on secret coins;
    elsewhere the certificate tells bounds that no coin decides.
    """
    trust = mechanism.trust
    return {
        "server": View(
            "server",
            messages="sums" if trust == "distributed" else "each",
            bare=trust == "central",
            revealed=reveals(mechanism.perturber),
            cohort=True,
            files=(),
        ),
        "outsider": View(
            "outsider",
            messages="none",
            bare=False,
            revealed=False,
            cohort=False,
            extra_noise=trust != "central",
            most_asked=not mechanism.coins_are_secret,
        ),
    }


def reveals(perturber: Perturber) -> bool:
    """Returns whether clients give part of their noise away once survivors are counted."""
    inner = getattr(perturber, "inner", None)
    if inner is not None:
        return reveals(inner)
    if not getattr(perturber, "thin", True):
        return False
    return getattr(type(perturber), "reveal", Perturber.reveal) is not Perturber.reveal
