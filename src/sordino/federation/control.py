"""What the operator asks of the SuperLink: to let members' nodes in, to start a run, and how it goes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization

from sordino.errors import FederationError
from sordino.federation.folder import FederationFolder
from sordino.federation.keys import transport_fingerprint
from sordino.federation.settings import offline


@dataclass(frozen=True)
class Control:
    """A connection to the SuperLink of a federation, from the operator's own machine."""

    folder: FederationFolder
    _client: Any

    def register_members(self) -> list[str]:
        """Lets the SuperNodes of new members log in, and those of members that left no more; returns who is new."""
        from flwr.proto.control_pb2 import RegisterNodeRequest, UnregisterNodeRequest

        known = {transport_fingerprint(key): node for key, node in self._nodes()}
        new = []
        for member in self.folder.registry.members:
            if not member.left and member.transport not in known:
                self._ask("RegisterNode", RegisterNodeRequest(public_key=self._key(member.name), name=member.name))
                new.append(member.name)
            elif member.left and member.transport in known:
                self._ask("UnregisterNode", UnregisterNodeRequest(node_id=known[member.transport]))
        return new

    def start_run(self, config: Mapping[str, float] | None = None) -> int:
        """Submits the federation's app with a run configuration; returns the number that Flower gives the run."""
        from flwr.cli.build import build_fab_from_disk
        from flwr.common.serde import fab_to_proto, user_config_to_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.supercore.fab import Fab

        content = build_fab_from_disk(self.folder.app_dir)
        fab = fab_to_proto(Fab(hashlib.sha256(content).hexdigest(), content, {}))
        asked = StartRunRequest(fab=fab, override_config=user_config_to_proto(dict(config or {})))
        return int(self._ask("StartRun", asked).run_id)

    def stop_run(self, run: int) -> None:
        """Ends a run."""
        from flwr.proto.control_pb2 import StopRunRequest

        self._ask("StopRun", StopRunRequest(run_id=run))

    def online(self) -> dict[str, bool]:
        """Returns which members' SuperNodes are connected, by member's name, as the SuperLink sees it."""
        from flwr.proto.control_pb2 import ListNodesRequest

        told = self._ask("ListNodes", ListNodesRequest()).nodes_info
        by_key = {transport_fingerprint(_text(node.public_key)): node.status == "online" for node in told}
        return {member.name: by_key.get(member.transport, False) for member in self.folder.registry.active}

    def _nodes(self) -> Iterator[tuple[str, int]]:
        from flwr.proto.control_pb2 import ListNodesRequest

        for node in self._ask("ListNodes", ListNodesRequest()).nodes_info:
            if node.status != "unregistered":
                yield _text(node.public_key), int(node.node_id)

    def _key(self, name: str) -> bytes:
        """Returns a member's public login key as Flower keeps it: PEM."""
        key = serialization.load_ssh_public_key(self.folder.member_key(name).read_bytes())
        return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def _ask(self, method: str, request: Any) -> Any:
        try:
            return getattr(self._client, method)(request)
        except Exception as error:
            raise FederationError(
                f"the SuperLink at {self.folder.address} refused {method} ({str(error)[:300]}): see "
                f"{self.folder.superlink_dir / 'superlink.log'}"
            ) from None


def _text(public_key: bytes) -> str:
    """Returns a key that Flower keeps as PEM in the way that our files have it."""
    key = serialization.load_pem_public_key(public_key)
    return key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


@contextmanager
def control(folder: FederationFolder) -> Iterator[Control]:
    """Connects to the SuperLink on this machine; closes the connection again."""
    os.environ |= offline(folder.superlink_dir / "flwr")
    from flwr.cli.cli_client_interceptor import CliClientHttpInterceptor
    from flwr.supercore.control.control_http_client import ControlHttpClient
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

    client = ControlHttpClient.from_server_address(
        server_address=f"127.0.0.1:{folder.about['port']}",
        insecure=False,
        root_certificates=Path(folder.authority.certificate).read_bytes(),
        interceptors=[CliClientHttpInterceptor(), RuntimeVersionHttpInterceptor(component_name="sordino")],
    )
    try:
        yield Control(folder, client)
    finally:
        client.close()
