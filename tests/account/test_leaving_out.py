"""Leaving out clients that are over budget: the amplified bound stays right, by exact enumeration.

A small release: each round shows one of a few symbols, drawn from Q when the client is not in the cohort and from P
when it is. All paths of outputs and all of the client's coins are enumerated, so divergences are exact. Eligibility is
any function of the client's own past coins and of past outputs (docs/accounting.md, "Leaving clients out").
"""

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ROUNDS = 4
Q = np.array([0.5, 0.3, 0.2])
P = np.array([0.2, 0.3, 0.5])


def ratios(rate, eligible, messages):
    """Yields (probability without the client, likelihood ratio with it) of every path of outputs."""
    for path in itertools.product(range(len(Q)), repeat=ROUNDS):
        base = float(np.prod(Q[list(path)]))
        ratio = 0.0
        for coins in itertools.product((0, 1), repeat=ROUNDS):
            weight, likelihood = 1.0, 1.0
            for t in range(ROUNDS):
                weight *= rate if coins[t] else 1 - rate
                if coins[t] and eligible(coins[:t], path[:t]):
                    likelihood *= messages(coins[:t], path[:t])[path[t]] / Q[path[t]]
            ratio += weight * likelihood
        yield base, ratio


def hockey_sticks(pairs, epsilon):
    """Returns δ(ε) in both directions: with the client against without, and the reverse."""
    pairs = list(pairs)
    present = sum(base * max(0.0, ratio - math.exp(epsilon)) for base, ratio in pairs)
    absent = sum(base * max(0.0, 1 - math.exp(epsilon) * ratio) for base, ratio in pairs)
    return present, absent


def full(rate):
    return list(ratios(rate, lambda coins, path: True, lambda coins, path: P))


@pytest.mark.parametrize("cap", [0, 1, 2, 3])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_a_cap_on_participations_never_costs_more(cap, rate):
    capped = list(ratios(rate, lambda coins, path: sum(coins) < cap, lambda coins, path: P))
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        for found, bound in zip(hockey_sticks(capped, epsilon), hockey_sticks(full(rate), epsilon), strict=True):
            assert found <= bound + 1e-12


@given(st.integers(0, 10**6), st.floats(0.05, 0.95), st.floats(0, 2))
@settings(max_examples=40, deadline=None)
def test_any_rule_of_own_coins_and_outputs_never_costs_more(seed, rate, epsilon):
    """Random eligibility and random messages, both free to depend on the client's own past."""
    rng, rule, mixes = random.Random(seed), {}, {}

    def eligible(coins, path):
        return rule.setdefault((coins, path), rng.random() < 0.6)

    def messages(coins, path):
        # Any message between P and Q is a garbling of P, so P stays the dominating pair of the round.
        share = mixes.setdefault((coins, path), rng.random())
        return share * P + (1 - share) * Q

    found = hockey_sticks(ratios(rate, eligible, messages), epsilon)
    for value, bound in zip(found, hockey_sticks(full(rate), epsilon), strict=True):
        assert value <= bound + 1e-12


def test_not_charging_a_client_for_rounds_it_sat_out_by_its_own_coins_would_be_wrong():
    """With a cap of one, the price of one round is too low: the outsider does not know which round it was."""
    rate = 0.5
    capped = list(ratios(rate, lambda coins, path: sum(coins) < 1, lambda coins, path: P))
    one = (1 - rate) * Q + rate * P
    for epsilon in (0.0, 0.1):
        single = float(np.maximum(0.0, one - math.exp(epsilon) * Q).sum())
        assert hockey_sticks(capped, epsilon)[0] > single


def test_an_end_that_depends_on_coins_is_not_covered():
    """A run that ends once the client is used up shows its coins: the amplified bound breaks, so it is not credited."""
    rate, epsilon = 0.1, 1.0
    # Without the client the run never ends early; with it, it does whenever a coin fell: that symbol has Q = 0.
    ended_early = 1 - (1 - rate) ** (ROUNDS - 1)
    assert ended_early > 2 * hockey_sticks(full(rate), epsilon)[0]
