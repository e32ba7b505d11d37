"""The loop that one writes by hand: client after client, in one process or two."""

import multiprocessing as mp
import time

import torch
from torch import nn
from workloads import CLIP_NORM, LEARNING_RATE, Workload, data, flat


class Contender:
    """Option: `1` or `2` threads, or `processes` for two processes of one thread."""

    prepared = True

    def __init__(self, workload: Workload, option: str = "1") -> None:
        self.workload, self.round = workload, 0
        self.w = flat(workload.model())
        self.hands = [Hand(workload)]
        torch.set_num_threads(2 if option == "2" else 1)
        if option == "processes":
            self.hands.append(OtherHand(workload, self.w))

    def play(self, rounds: int, noise: float) -> list[float]:
        return [self._round(noise) for _ in range(rounds)]

    def weights(self) -> torch.Tensor:
        return self.w

    def _round(self, noise: float) -> float:
        began = time.perf_counter()
        self.round += 1
        cohort = self.workload.cohort_of(self.round)
        shares = [cohort[place :: len(self.hands)] for place in range(len(self.hands))]
        for hand, share in zip(self.hands[1:], shares[1:], strict=True):
            hand.ask(self.w, share)
        total = self.hands[0].clipped_sum(self.w, shares[0])
        for hand in self.hands[1:]:
            total += hand.answer()
        total += torch.randn(len(self.w)) * (noise * CLIP_NORM)
        self.w = self.w + total / len(cohort)
        return time.perf_counter() - began


class Hand:
    """Trains clients one by one."""

    def __init__(self, workload: Workload) -> None:
        self.workload, self.model = workload, workload.model()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=LEARNING_RATE)
        self.x, self.y = data()[:2]

    def clipped_sum(self, w: torch.Tensor, clients) -> torch.Tensor:
        total = torch.zeros_like(w)
        for client in clients:
            update = self._train(w, int(client))
            total.add_(update, alpha=min(1.0, CLIP_NORM / float(update.norm())))
        return total

    def _train(self, w: torch.Tensor, client: int) -> torch.Tensor:
        nn.utils.vector_to_parameters(w.clone(), self.model.parameters())
        each = self.workload.records
        x, y = self.x[client * each :][:each], self.y[client * each :][:each]
        for batch in torch.randperm(each).split(self.workload.batch):
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(x[batch]), y[batch]).backward()
            self.optimizer.step()
        return nn.utils.parameters_to_vector(self.model.parameters()).detach() - w


class OtherHand:
    """A second process, which shares the data by fork and answers through shared memory."""

    def __init__(self, workload: Workload, w: torch.Tensor) -> None:
        self.w, self.total = torch.empty_like(w).share_memory_(), torch.empty_like(w).share_memory_()
        self.pipe, theirs = mp.Pipe()
        data()
        mp.get_context("fork").Process(target=self._work, args=(workload, theirs), daemon=True).start()

    def _work(self, workload: Workload, pipe) -> None:
        torch.set_num_threads(1)
        hand = Hand(workload)
        while True:
            clients = pipe.recv()
            self.total.copy_(hand.clipped_sum(self.w, clients))
            pipe.send(None)

    def ask(self, w: torch.Tensor, clients) -> None:
        self.w.copy_(w)
        self.pipe.send(clients)

    def answer(self) -> torch.Tensor:
        self.pipe.recv()
        return self.total
