"""What an introduction quotes of the records, put in when its page is made, so that it says what the tables below say.

`{id: quantity}` is what was found for a line, and `{id}` how big an experiment was run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from papers.cited import PAPERS
from papers.record import ExperimentRecord
from sordino.errors import SordinoError

NOT_YET = "not run yet"
_QUOTE = re.compile(rf"{{((?:{'|'.join(paper.short for paper in PAPERS)})-[a-z0-9-]+)(?:: ([^}}]+))?}}")


def quoted(text: str, records: Mapping[str, ExperimentRecord]) -> str:
    """Returns an introduction with what it quotes.

    **Edge cases**: what has no record is said not to have been run.

    Raises:
        SordinoError: a record has no such line.
    """
    return _QUOTE.sub(lambda quote: _told(records.get(quote[1]), quote[2]), text)


def _told(record: ExperimentRecord | None, quantity: str | None) -> str:
    if record is None or quantity is None:
        return NOT_YET if record is None else record.size()
    found = [line.ours for line in record.lines if line.quantity == quantity]
    if not found:
        raise SordinoError(f"an introduction quotes {quantity!r} of {record.id}, which has no such line")
    return found[0]
