"""`sordino certificate`: what a run promises, as a document; and whether such a document holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sordino import strict_json
from sordino.cli.idle import refuse_options


def certificate(
    run: Annotated[Path | None, typer.Argument(help="run folder, or certificate.json")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print it as JSON")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="print it as Markdown")] = False,
    registry: Annotated[
        bool, typer.Option("--registry", help="print it as an entry of the OpenDP deployments registry (YAML)")
    ] = False,
    check: Annotated[
        Path | None,
        typer.Option(help="verify signature and recompute every number of this certificate, without the run"),
    ] = None,
    key: Annotated[str | None, typer.Option(help="the public key that must have signed it (with --check)")] = None,
) -> None:
    """Print the certificate of a run, or check one.

    RUN is a run folder, its public/ alone, or a certificate.json. The certificate is public: it holds nothing about
    single clients.
    """
    from sordino.errors import RecipeError

    if (run is None) == (check is None):
        raise RecipeError("name one certificate: `sordino certificate RUN`, or `sordino certificate --check FILE`")
    if sum((as_json, markdown, registry)) > 1 or (check is not None and (markdown or registry)):
        raise RecipeError("--json, --markdown and --registry exclude each other, and --check takes --json at most")
    if check is not None:
        _check(check, key, as_json)
    elif run is not None:
        refuse_options(("key",), "on a certificate that is only shown: verify it, with --check in place of RUN")
        print(_told(run, as_json, markdown, registry), end="")


def _check(path: Path, key: str | None, as_json: bool) -> None:
    from sordino.account.certificate.check import check

    checked = list(check(_file(path), key))
    told = strict_json.dumps({"checked": True, "certificate": str(path), "checks": checked})
    print(told if as_json else "\n".join(checked))


def _file(run: Path) -> Path:
    """Returns the certificate of a run folder, of its public part, or the file itself."""
    if not run.is_dir():
        return run
    inside = run / "public" / "certificate.json"
    return run / "certificate.json" if not inside.exists() and (run / "certificate.json").exists() else inside


def _told(run: Path, as_json: bool, markdown: bool, registry: bool) -> str:
    from dataclasses import replace

    from sordino.account.certificate import text
    from sordino.account.certificate.audit_bound import audit_bound
    from sordino.account.certificate.check import signed_document
    from sordino.account.certificate.registry import registry as entry

    document = signed_document(_file(run))
    if as_json:
        return document.to_json()  # as it was signed: an audit comes later, and is told beside it
    if run.is_dir() and (bound := audit_bound(run)) is not None:
        document = replace(document, statement=replace(document.statement, audit=bound.words()))
    return entry(document) if registry else text.markdown(document) if markdown else text.text(document)
