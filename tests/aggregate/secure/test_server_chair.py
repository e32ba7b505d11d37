"""From the server's chair: all the bytes that it receives tell it no more of one client than the noisy sum does.

A curious server writes down every message of a round with dropouts, recovers every secret that it is given shares of,
and takes off every mask that it can. From all of that, and the removable parts that clients reveal, it makes the best
linear estimate of one client's input (each coordinate is an independent trial). How well that does is compared,
two-sided, with what the noisy sum alone allows.
"""

from collections import defaultdict

import numpy as np

from perturb.variances import remaining
from sordino.aggregate.integers import from_residues, reduce, to_residues
from sordino.aggregate.secure import client as client_module
from sordino.aggregate.secure import recovery
from sordino.aggregate.secure import server as server_module
from sordino.aggregate.secure.keys import Identity
from sordino.aggregate.secure.masks import add_masks, self_mask
from sordino.aggregate.secure.messages import Masked, Unmask
from sordino.aggregate.secure.server import SumServer
from sordino.aggregate.secure.session import STAGES, play_full
from sordino.aggregate.secure.terms import SumTerms
from sordino.aggregate.secure.wire import MessageKind, Reader, open_client
from sordino.perturb.skellam import SkellamShares, random_bits, skellam
from sordino.random.streams import Streams

BITS, WIDTH, SPREAD = 24, 160_000, 30
CLIENTS = np.arange(7)
DROPOUTS = {"share": {5}, "mask": {1}, "unmask": {4}}
SURVIVORS, TARGET = [0, 2, 3, 4, 6], 0
NOISE = SkellamShares(4.0 * SPREAD**2, smallest_cohort=4)
TERMS = SumTerms(7, tuple(CLIENTS.tolist()), WIDTH, BITS, threshold=4, smallest_cohort=4, reveals=True)
STREAMS = Streams(11)
IDENTITIES = {client: Identity() for client in CLIENTS.tolist()}


def inputs():
    rng = np.random.default_rng(2)
    return np.rint(rng.normal(0, SPREAD, (len(CLIENTS), WIDTH))).astype(np.int64)


def thinned(client, noise, survivors):
    return NOISE.removable(noise, survivors, random_bits(STREAMS, "split", 7, client))


def as_printed(client, noise, survivors):
    # Baek et al., Algorithm 3, line 34: take all of e off again, and put fresh noise of the final variance in its place
    fresh = skellam(NOISE.share_variance(survivors), WIDTH, random_bits(STREAMS, "fresh", 7, client))
    return noise.values - fresh.values


def transcript(values, calibrate):
    """Plays a round and returns what the server received, by stage and client."""
    drawn = {c: NOISE.draw(WIDTH, random_bits(STREAMS, "noise", 7, c)) for c in CLIENTS.tolist()}
    heard = defaultdict(dict)
    play_full(
        TERMS,
        CLIENTS,
        lambda c: to_residues(values[c] + drawn[c].values, BITS),
        DROPOUTS,
        reveal=lambda c, survivors: calibrate(c, drawn[c], survivors),
        listen=lambda stage, c, message: heard[stage].__setitem__(c, message),
        identities=IDENTITIES,
    )
    return heard


def what_the_server_knows(heard):
    """Replays the bytes into a server, and returns as many columns as it can make of them."""
    server = SumServer(TERMS, {client: identity.public for client, identity in IDENTITIES.items()})
    for stage in STAGES:
        for message in heard[stage].values():
            server.receive(message)
        if stage != "unmask":
            server.close()
    view, alive, sharers = server._view, server._alive, server._sharers
    table = server._table
    story = view.shared(sharers)
    columns = {}
    for c, message in heard["mask"].items():
        place = view.places[c]
        masked = Masked.parse(Reader(open_client(TERMS, MessageKind.MASKED, message).body), TERMS).vector
        columns["masked", c] = masked
        # the masks of this one client that the server can compute: its own, and those with clients that vanished
        own = [(self_mask(table.secrets(np.array([place]))[0], story, c), -1)]
        vanished = np.flatnonzero(sharers & ~alive).tolist()
        keys = {v: table.secrets(np.array([v]))[0] for v in vanished}
        gone = recovery.vanished_masks(view, story, {v: [place] for v in vanished}, keys)
        for name, masks in (("without its own mask", own), ("without all known masks", own + gone)):
            stripped = masked.copy()
            add_masks(stripped, masks)
            columns[name, c] = reduce(stripped, BITS)
    for c, message in heard["unmask"].items():
        removable = Unmask.parse(Reader(open_client(TERMS, MessageKind.UNMASK, message).body), TERMS).removable
        columns["removable", c] = to_residues(removable, BITS)
    columns["sum"] = server.open().total
    return {name: from_residues(column, BITS) for name, column in columns.items()}


def explained(target, columns):
    """The share of the target's variance that the best linear estimate explains."""
    design = np.stack([np.ones(WIDTH), *columns], 1).astype(np.float64)
    design /= np.maximum(design.std(0), 1)
    residual = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
    degrees = WIDTH - design.shape[1]
    return 1 - (residual @ residual / degrees) / target.var()


def leak(calibrate=thinned):
    """How much the server can explain in all; from the sum alone in theory; and the spread of the former."""
    values = inputs()
    known = what_the_server_knows(transcript(values, calibrate))
    noise = remaining(NOISE, len(SURVIVORS), len(SURVIVORS) - 1)
    alone = SPREAD**2 / (len(SURVIVORS) * SPREAD**2 + noise)
    spread = 2 * np.sqrt(alone * (1 - alone) ** 2 / WIDTH)
    return explained(values[TARGET], known.values()), alone, spread, known, values


def test_all_bytes_tell_no_more_than_the_noisy_sum():
    everything, alone, spread, known, values = leak()
    assert len(known) == 5 * 3 + 4 + 1
    assert abs(everything - alone) < 4 * spread
    assert abs(explained(values[TARGET], [known["sum"]]) - alone) < 4 * spread
    # two-sided: the same data rule out that noise were 2/3 or 3/2 of what it is
    noise = remaining(NOISE, 5, 4)
    for factor in ((2 / 3) ** 2, (3 / 2) ** 2):
        assert abs(everything - SPREAD**2 / (5 * SPREAD**2 + factor * noise)) > 8 * spread
    # and of a client that shared secrets but sent no vector, nothing at all
    assert abs(explained(values[1], known.values())) < 4 / np.sqrt(WIDTH)


def test_without_masks_the_server_sees_more(monkeypatch):
    for module in (client_module, server_module):
        monkeypatch.setattr(module, "add_masks", lambda vector, masks: None)
    monkeypatch.setitem(globals(), "add_masks", lambda vector, masks: None)
    everything, alone, spread, *_ = leak()
    assert everything > alone + 20 * spread


def test_pairwise_masks_are_needed(monkeypatch):
    # a self mask alone is taken off by the seed that the survivors hand over
    monkeypatch.setattr(client_module, "add_masks", lambda vector, masks: add_masks(vector, masks[:1]))
    values = inputs()
    known = what_the_server_knows(transcript(values, thinned))
    assert explained(values[TARGET], [known["without its own mask", TARGET]]) > 0.3


def test_the_printed_calibration_gives_more_away():
    everything, alone, spread, known, values = leak(as_printed)
    assert everything > alone + 5 * spread
    # though the sum that it leaves has the very variance that was asked for
    assert abs(explained(values[TARGET], [known["sum"]]) - alone) < 4 * spread
    kept, first = float(NOISE.share_variance(5)), float(NOISE.share_variance())
    inner = 4 * kept * first / (kept + first) + first  # what the paper's reveal leaves of the noise, given all it says
    assert abs(everything - SPREAD**2 / (5 * SPREAD**2 + inner)) < 4 * spread
