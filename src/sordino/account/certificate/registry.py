"""The certificate as an entry of the OpenDP deployments registry, in YAML.

Reference: opendp/deployments-registry-data, layout of September 2026 (`basic`, `dp_variant`, `privacy_loss`,
`deployment_model`, `accounting`, `implementation`, `administrative`, tiers 1 to 3); as a JSON Schema it is in
`tests/account/registry_schema.json`. What only the data curator knows is marked "to be filled in".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sordino.account.certificate.document import CertificateDocument, Promise
from sordino.account.certificate.text import about, facts, number
from sordino.printable import printable

_OPEN = "to be filled in by the data curator"
_MODELS = {"local": "Local", "central": "Central", "distributed": "Federated"}


def registry(document: CertificateDocument) -> str:
    """Returns the entry as YAML, of which a terminal obeys nothing: strangers write certificates."""
    return "\n".join(map(printable, _yaml(entry(document)))) + "\n"


def entry(document: CertificateDocument) -> dict[str, Any]:
    """Returns the entry as nested dictionaries."""
    told, main = document.statement, _main(document)
    run = {name: printable(value) for name, value in about(document)}
    variant = "Custom" if main.epsilon is None else "Approximate DP" if main.delta else "Pure DP"
    kind = f"{told.mechanism} ({told.mode}, {told.trust} trust)"
    made = f"A model trained by federated learning with {kind}, {document.releases} releases."
    seeded = " A simulation: seeded noise." if document.simulation else ""
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", f"{document.federation} {document.run}".lower()).strip("-"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": f"{document.federation}, {told.mechanism}",
                "data_curators": [{"data_curator_name": _OPEN, "data_curator_type": _OPEN}],
                "intended_use": _OPEN,
                "data_product_type": "Machine learning model",
                "data_product_region": _OPEN,
                "description": f"{made}{seeded}",
                "publication_date": document.time[:10],
            },
            "dp_variant": {
                "variant_name": variant,
                "data_domain": f"the records of the clients of {document.federation}",
                "unprotected_quantities": run["not protected"],
            },
            "privacy_loss": {
                "privacy_unit": main.unit,
                "privacy_unit_details": f"{main.adjacency}: {_ADJACENT[main.adjacency]}",
                "privacy_parameters": {} if main.epsilon is None else {"epsilon": main.epsilon, "delta": main.delta},
                "privacy_parameters_details": "\n".join(map(_line, document.promises)),
            },
            "deployment_model": {
                "model_name": _MODELS[told.trust],
                "model_name_details": f"{told.trust} trust; {run['secure sum']}",
                "actors": "\n".join(f"{name} sees: {'; '.join(view.words())}" for name, view in told.views.items()),
                "release_type": "Many releases",
                "release_type_details": f"{document.releases} releases, {run['ended']}; budget {run['budget']}",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "the server's step on released means, and the choice of the next round's settings",
                "composition": dict(facts(main, document)).get("accountant", "nothing is proved")
                + f"; over all runs of the ledger; sampling assumed: {told.sampling_assumed}",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": run["data accesses"],
                "mechanisms": "\n".join(
                    f"{k}: {run[k]}" for k in ("noise", "arithmetic", "secure sum", "denominator", "code")
                ),
                "justification": run["assumed"],
            },
            "administrative": {
                "sources": f"ledger head {document.ledger_head}, signed by {document.public_key}",
                "registry_authors": [_OPEN],
            },
        },
    }


_ADJACENT = {
    "add_remove": "neighbours differ in one unit that is there or is not",
    "zero_out": "neighbours differ in one unit whose contribution is replaced by nothing",
    "replace": "neighbours differ in one unit that is replaced by any other",
}


def _main(document: CertificateDocument) -> Promise:
    """Returns the promise to tell first: what readers of the model are promised, the weakest of several."""
    outside = [one for one in document.promises if one.observer == "outsider"] or list(document.promises)
    return max(outside, key=lambda one: float("inf") if one.epsilon is None else one.epsilon)


def _line(one: Promise) -> str:
    claimed = "" if one.claimed_epsilon is None else f", claimed {number(one.claimed_epsilon)}"
    gauss = f"μ = {number(one.numbers.mu)} (regret {one.numbers.regret:.2g})"
    who = f"{one.unit} against the {one.observer} ({one.adjacency})"
    return f"{who}: {one.status}, ε = {number(one.epsilon)} at δ = {one.delta:g}, {gauss}{claimed}"


def _yaml(node: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yields a tree of dictionaries, lists, texts and numbers as YAML; a quoted text is written alike in JSON."""
    for name, value in node.items():
        if isinstance(value, Mapping) and value:
            yield f"{indent}{name}:"
            yield from _yaml(value, f"{indent}  ")
        elif isinstance(value, list):
            yield f"{indent}{name}:"
            # a mapping in braces, or a quoted text: both are written alike in JSON
            yield from (f"{indent}  - {json.dumps(item, ensure_ascii=False)}" for item in value)
        elif isinstance(value, str) and "\n" in value:
            yield f"{indent}{name}: |-"
            yield from (f"{indent}  {line}" for line in value.splitlines())
        else:
            told = json.dumps(value, ensure_ascii=False)
            # YAML 1.1 reads 1e-05 as a text, and 1.0e-05 as a number
            told = re.sub(r"^([0-9]+)e", r"\1.0e", told) if isinstance(value, float) else told
            yield f"{indent}{name}: {told}"
