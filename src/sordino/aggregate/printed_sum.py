"""A secure sum under the trust that the papers have in their server."""

from __future__ import annotations

from sordino.aggregate.secure_sum import SecureSum
from sordino.terms import Terms
from sordino.types import IntArray


class PrintedSecureSum(SecureSum):
    """A secure sum whose server is believed when it counts survivors (honest-but-curious, as Baek et al. have it)."""

    def counted(self, terms: Terms, survivors: IntArray) -> IntArray:
        return survivors
