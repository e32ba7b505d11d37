"""The server's side: a strategy that makes the one that it wraps private.

strategy = PrivateStrategy(FedAvg(), context)
result = strategy.start(grid, initial_arrays, num_rounds=20)
print(strategy.certificate)
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord
from flwr.serverapp import Grid, PrivacySpent
from flwr.serverapp.strategy import Result, Strategy

from sordino.account.certificate.certificate import Certificate
from sordino.account.certificate.document import CertificateDocument
from sordino.errors import BudgetExceeded, ProtocolError, RecipeError, SordinoWarning
from sordino.files import PUBLIC, replace_file
from sordino.flower.arrays import ArrayLayout
from sordino.flower.checkpoint import RunCheckpoint, announce, give_back, kept_by
from sordino.flower.mod import FAILED
from sordino.flower.session import OpenRound, PrivateSession
from sordino.flower.settings import FlowerSettings
from sordino.flower.wire import NAME, PrivateReply
from sordino.flower.wrapped import content_for, tell
from sordino.random.streams import Entropy, Randomness

_LOG = logging.getLogger("flwr")
_LOOK = 0.5
"""Seconds between looks for nodes."""


class PrivateStrategy(Strategy):
    """Any Flower strategy, with client-level differential privacy and a certificate.

    **Formal guarantees**: the wrapped strategy only ever sees released models, so what it does is post-processing.
    Selection, bound, noise and price are sordino's own (`flower/session.py`): central or local trust, unit client. A
    round's cost is in the ledger before anybody is asked. Missing replies neither discard a round nor change what it is
    divided by; `num-examples` and every other metric of a client is ignored. A round that would exceed the budget is
    not played: the model stays as it is, and `stopped` says why.
    **Edge cases**: integer arrays stay as the server has them. Clients evaluate only under
    `sordino.evaluate = "unprotected"`, which the certificate then says. Strategies that compare single replies (Krum,
    medians) have one released reply to look at.
    """

    def __init__(self, strategy: Strategy, context: Context, *, randomness: Randomness | None = None) -> None:
        """Wraps a strategy.

        Args:
            strategy: the one to make private.
            context: the ServerApp's; its run configuration is read at each call.
            randomness: draws of the caller's choice, for simulations; by default the operating system's.
        """
        super().__init__()
        self.strategy, self.context = strategy, context
        self.certificate: Certificate | None = None
        self.document: CertificateDocument | None = None
        self._randomness: Randomness = randomness or Entropy()
        self._session: PrivateSession | None = None
        self._rounds: int | None = None
        self._open: tuple[OpenRound, ArrayRecord, Message] | None = None
        self._exposed = False
        self._done = 0
        """Rounds that were announced before this start of the ServerApp."""

    @property
    def stopped(self) -> str | None:
        """Why no further rounds are played, if so."""
        return None if self._session is None else self._session.stopped

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Plays the rounds, and leaves `certificate` and `document` behind.

        Raises:
            BudgetExceeded: not even the first round could be paid for.
            SordinoError: one sentence that names the setting and the remedy.
        """
        self.close()
        self._rounds = num_rounds
        arrays = self._resumed(initial_arrays)
        done = self._done
        later = evaluate_fn and (lambda round_, model: evaluate_fn(round_ + done, model))
        try:
            left = max(0, num_rounds - done)
            result = super().start(grid, arrays, left, timeout, train_config, evaluate_config, later)
            if self.stopped is not None and not (result.arrays or done):
                raise BudgetExceeded(self.stopped)
        finally:
            self.conclude()
        return _renumbered(result, arrays, done) if done else result

    def _resumed(self, arrays: ArrayRecord) -> ArrayRecord:
        """Returns the model to begin with: that of the run's checkpoint, if there is one to go on from."""
        path = FlowerSettings.read(self.context.run_config).checkpoint
        last = None if path is None else RunCheckpoint.load(path)
        if path is None or last is None:
            return arrays
        self._done = last.announced(path)
        session = self._going(last.arrays)
        session.resume(last, self._done)
        session.admit(last.nodes)
        give_back(self.strategy, last.own)
        _LOG.info("sordino: the run in %s goes on after round %d of %d", path, self._done, last.rounds)
        return last.arrays

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Reserves the round's cost, and returns messages for the cohort; none once the budget is spent."""
        session, server_round = self._going(arrays), server_round + self._done
        if session.stopped is not None:
            return []
        row = session.layout.row(arrays)
        # first what may be refused, then what is paid for
        content, asked = content_for(self.strategy, server_round, session.layout.record(row), arrays, config)
        nodes = self._waited(grid)
        if session.settings.checkpoint is not None:
            self._begin(session, arrays, nodes)
        opened = session.ask(nodes, row)
        if opened is None:
            _LOG.warning("sordino: stopped before round %d: %s", server_round, session.stopped)
            return []
        content[NAME] = opened.terms.pack()
        self._open = opened, arrays, asked
        return [Message(content, node, MessageType.TRAIN) for node in opened.nodes]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Releases the round's model, and lets the wrapped strategy make its own of it."""
        if self._open is None or self._session is None:
            return None, None
        (opened, before, asked), self._open = self._open, None
        session, told, server_round = self._session, list(replies), server_round + self._done
        readable = list(_readable(told, session.layout.width))
        if told and not readable:
            _refuse_silence(told)
        released = session.release(opened, readable)
        if released is None:
            _LOG.warning("sordino: round %d released nothing: no reply came in time", server_round)
            self._keep(session, before)
            return None, None
        _LOG.info(
            "sordino: round %d asked %d nodes, %d answered; noise %.3g on each weight; ε %.4g at δ %g so far",
            *(server_round, len(opened.nodes), len(readable), released.stddev),
            *(session.spent(), session.settings.delta),
        )
        made, metrics = tell(self.strategy, server_round, session.layout.record(session.weights), asked)
        whole = None if made is None else session.layout.whole(made, before)
        self._keep(session, whole or before)
        return whole, metrics or None

    def _begin(self, session: PrivateSession, arrays: ArrayRecord, nodes: list[int]) -> None:
        """Writes down, durably, which round is about to be paid for and announced."""
        path = session.settings.checkpoint
        assert path is not None
        if not path.exists():  # a run that is killed in its first round has something to go on from, too
            session.admit(nodes)
            self._keep(session, arrays)
        announce(path, session.run, session.round_ + 1)

    def _keep(self, session: PrivateSession, arrays: ArrayRecord) -> None:
        """Writes down where the run stands, if it is to go on after a restart."""
        if session.settings.checkpoint is not None:
            session.checkpoint(arrays, kept_by(self.strategy)).save(session.settings.checkpoint)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Asks nobody, unless `sordino.evaluate = "unprotected"`: scores of clients come without noise."""
        session = self._going(arrays)
        if session.settings.evaluate == "off" or session.stopped is not None:
            return []
        if not self._exposed:
            session.admit(self._waited(grid))
            session.expose("clients evaluated the model and sent their scores without noise")
            self._exposed = True
        return self.strategy.configure_evaluate(server_round + self._done, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Lets the wrapped strategy aggregate scores, where there are any."""
        return self.strategy.aggregate_evaluate(server_round + self._done, replies) if self._exposed else None

    def summary(self) -> None:
        """Logs what is declared."""
        settings = FlowerSettings.read(self.context.run_config)
        _LOG.info("\t├──> sordino: %s trust, select %s", settings.trust, settings.select)
        _LOG.info("\t│\t├── budget: ε %s at δ %g", settings.epsilon, settings.delta)
        _LOG.info("\t│\t└── clip norm %g (%s)", settings.clip_norm, settings.clipping)
        self.strategy.summary()

    def privacy_spent(self) -> PrivacySpent | None:
        """Returns what the client that paid most has spent, in Flower's own type; None before the first round."""
        if self.certificate is not None:
            told = [entry.epsilon for entry in self.certificate.entries if entry.epsilon is not None]
            epsilon = max(told) if told else float("inf")
            return PrivacySpent(epsilon, self.certificate.delta, self.certificate.releases, "pld")
        if self._session is None or self._session.stopped is not None:
            return None
        return PrivacySpent(self._session.spent(), self._session.settings.delta, self._session.releases, "pld")

    def conclude(self) -> None:
        """Makes the certificate of what was released, writes it where `sordino.certificate` says, closes the ledger."""
        session = self._session
        if session is None or not session.began:
            return
        self.certificate, self.document = session.certificate()
        if session.settings.certificate is not None:
            replace_file(session.settings.certificate, self.document.to_json().encode(), PUBLIC)
        session.close()

    def close(self) -> None:
        """Ends the run, so that the next one begins anew on the same ledger."""
        if self._session is not None:
            self._session.close()
        self._session, self._open, self._exposed, self._done = None, None, False, 0
        self.certificate, self.document = None, None

    def _going(self, arrays: ArrayRecord) -> PrivateSession:
        """Returns the run that is going on, or begins one; settings that changed since are refused."""
        settings = FlowerSettings.read(self.context.run_config)
        if self._session is None:
            rounds = settings.rounds or self._rounds
            if rounds is None:
                raise RecipeError("sordino.rounds is missing: set it, or call start(num_rounds=…)")
            layout = ArrayLayout.of(arrays, settings.excludes)
            _warn(layout)
            self._session = PrivateSession(settings, layout, rounds, self._randomness)
        if self._session.settings != settings:
            raise RecipeError("sordino.* settings changed in the middle of a run: start another run with them")
        return self._session

    def _waited(self, grid: Grid) -> list[int]:
        """Returns the connected nodes, once there are as many as the wrapped strategy waits for."""
        least = max(1, int(getattr(self.strategy, "min_available_nodes", 1)))
        while len(nodes := list(grid.get_node_ids())) < least:
            _LOG.info("sordino: waiting for nodes: %d are connected and %d are needed", len(nodes), least)
            time.sleep(_LOOK)
        return nodes


def _renumbered(result: Result, arrays: ArrayRecord, done: int) -> Result:
    """Returns what the rest of a run gave, with its rounds counted from the run's first."""
    result.arrays = result.arrays or arrays
    for name in ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp"):
        setattr(result, name, {round_ + done: told for round_, told in getattr(result, name).items()})
    return result


def _readable(replies: Iterable[Message], width: int) -> Iterator[tuple[int, PrivateReply]]:
    """Yields replies that can be read, by node; the others are logged, and count as missing."""
    for reply in replies:
        if reply.has_error():
            # an error on behalf of a lost node has the SuperLink as its source: only its reason is told
            _LOG.warning("sordino: a node answered with an error: %s", reply.error.reason)
            continue
        try:
            yield reply.metadata.src_node_id, PrivateReply.unpack(reply.content, width)
        except ProtocolError as why:
            _LOG.warning("sordino: the reply of node %d is left out: %s", reply.metadata.src_node_id, why)


def _refuse_silence(replies: Sequence[Message]) -> None:
    """Ends a run in which nobody takes part because of how it is set up, which tells nothing of anybody's data.

    Raises:
        ProtocolError: every node refused, or none has the mod.
    """
    reasons = [reply.error.reason or "" for reply in replies if reply.has_error()]
    if not reasons:
        raise ProtocolError("no reply was made private: add private_mod to the mods of the ClientApp")
    if not any(FAILED in reason for reason in reasons):
        raise ProtocolError(f"no node takes part; the first says: {reasons[0]}")


def _warn(layout: ArrayLayout) -> None:
    noisy = [name for name in layout.layout.names if name.endswith("running_var")]
    if noisy:
        warnings.warn(
            f"{noisy[0]} gets noise and may turn negative: exclude it (sordino.exclude = '*running_*'), or use "
            "GroupNorm",
            SordinoWarning,
            stacklevel=2,
        )
