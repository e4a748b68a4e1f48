"""A Talos node's first boot, without Talos: where it looks for its configuration, in Talos's own order, and what it takes.

Order: STATE, embedded, `talos.config.early`, `talos.config`, `talos.config.inline`, maintenance. Source: Talos's
acquire controller, metal platform and META format, as of 1.14. `talos.config=URL` expands `${uuid} ${serial} ${mac}
${hostname} ${code}` in query values; an answer other than 200 is asked for again, ever more slowly; 204 is an empty
configuration. Nothing but public authorities is trusted, except what a TrustedRootsConfig in `talos.config.early` adds.
"""

import base64
import gzip
import http.client
import json
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import yaml
import zstandard
from jsonschema import Draft202012Validator

from fleet_lab.places import LabError
from fleet_machine.disk import talos_meta
from fleet_machine.disk.partitions import partitions_of
from fleet_machine.disk.source import Disk
from fleet_machine.disk.volumes import ToolVolumes

ATTEMPT, GIVE_UP = 180.0, 3 * 3600.0
"""Seconds that one download and the whole acquisition may take."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
STATE_LABEL, STATE_FILE = "STATE", "config.yaml"
_UUID_OVERRIDE = 15
_VARIABLE = re.compile(r"\$\{([a-z]+)\}", re.IGNORECASE)


class ConfigRefusedError(LabError):
    """The node would not run this configuration."""


@dataclass(frozen=True, slots=True)
class TalosHost:
    """What the node knows of itself before it has a configuration. `source` is the address that it calls from."""

    uuid: str
    serial: str
    mac: str
    disk: Disk
    command_line: Mapping[str, str]
    source: str = ""
    schema: Path | None = None
    """Talos's published schema of configuration documents, where it is there."""


@dataclass(frozen=True, slots=True)
class Acquired:
    """Where the configuration came from, and its documents."""

    origin: str
    documents: Sequence[Mapping[str, Any]]

    @property
    def hostname(self) -> str:
        """The name that the node gives itself; empty without one."""
        return next((str(d["hostname"]) for d in self.documents if d.get("kind") == "HostnameConfig"), "")


@dataclass
class TalosNode:
    """One boot of one node. `wait` sleeps for so many seconds, and says whether the power is still on."""

    host: TalosHost
    wait: Callable[[float], bool]
    say: Callable[[str], None]
    connect: Callable[[str, int, ssl.SSLContext, float], http.client.HTTPConnection] | None = None

    def boot(self) -> Acquired | None:
        """Acquire a configuration; keep it in STATE, if the disk has one. None: power cut, or maintenance mode.

        Raises ConfigRefusedError when what was given is not what Talos would run on this machine.
        """
        kept = self._state()
        if kept is not None:
            return self._taken("STATE", kept)
        early = self._inline("talos.config.early")
        url = self.host.command_line.get("talos.config", "none")
        if url != "none":
            fetched = self._fetch(url, early)
            if fetched is None:
                return None
            if not fetched:
                self._in_maintenance()
                return None
            acquired = self._taken("talos.config", fetched)
            self._keep(fetched)
            return acquired
        inline = self._inline("talos.config.inline")
        if inline:
            return self._taken("talos.config.inline", inline)
        self._in_maintenance()
        return None

    def url(self, template: str) -> str:
        """Return the address with its variables filled in, in query values only."""
        meta = self._meta()
        known = {
            "uuid": meta.get(_UUID_OVERRIDE, b"").decode() or self.host.uuid,
            "serial": self.host.serial,
            "mac": self.host.mac,
            "hostname": "",
            "code": meta.get(talos_meta.DOWNLOAD_CODE, b"").decode(),
        }
        parts = urlsplit(template)
        pairs = []
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            filled = _VARIABLE.sub(lambda found: known.get(found[1].lower(), found[0]), value)
            pairs.append((name, known["uuid"] if name == "uuid" and not value else filled))
        return urlunsplit(parts._replace(query=urlencode(pairs, quote_via=quote)))

    def _in_maintenance(self) -> None:
        self.say("is in maintenance mode: nobody gave it a configuration")

    def _meta(self) -> dict[int, bytes]:
        """Read META as Talos does: the first of the two blocks that is whole."""
        for partition in partitions_of(self.host.disk):
            if partition.label == "META":
                with self.host.disk.path.open("rb") as disk:
                    disk.seek(partition.start)
                    both = disk.read(2 * talos_meta.BLOCK)
                first = talos_meta.decode(both[: talos_meta.BLOCK])
                return first or talos_meta.decode(both[talos_meta.BLOCK :]) or {}
        raise LabError("the disk has no META partition: this is no Talos image")

    def _fetch(self, template: str, early: bytes) -> bytes | None:
        pause, waited, trust = FIRST_PAUSE, 0.0, _trusted(early)
        while waited < GIVE_UP:
            try:
                status, body = self._get(self.url(template), trust)
            except OSError as error:
                self.say(f"could not fetch its configuration: {error}")
            else:
                if status in {200, 204}:
                    return body if status == 200 else b""
                self.say(f"was answered {status} when it fetched its configuration")
            if not self.wait(pause):
                return None
            waited, pause = waited + pause, min(pause * 2, LONGEST_PAUSE)
        self.say("gave up after three hours")
        return None

    def _get(self, url: str, trust: ssl.SSLContext) -> tuple[int, bytes]:
        parts = urlsplit(url)
        assert parts.hostname is not None
        connection = (self.connect or self._https)(parts.hostname, parts.port or 443, trust, ATTEMPT)
        try:
            connection.request("GET", f"{parts.path}?{parts.query}", headers={"Accept-Encoding": "gzip"})
            answer = connection.getresponse()
            body = answer.read()
        except http.client.HTTPException as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()
        return answer.status, gzip.decompress(body) if answer.getheader("Content-Encoding") == "gzip" else body

    def _https(self, host: str, port: int, trust: ssl.SSLContext, timeout: float) -> http.client.HTTPConnection:
        source = (self.host.source, 0) if self.host.source else None
        return http.client.HTTPSConnection(host, port, timeout=timeout, source_address=source, context=trust)

    def _inline(self, name: str) -> bytes:
        text = self.host.command_line.get(name, "")
        return zstandard.ZstdDecompressor().decompressobj().decompress(base64.b64decode(text)) if text else b""

    def _taken(self, origin: str, content: bytes) -> Acquired:
        documents = [document for document in yaml.safe_load_all(content) if document is not None]
        for problem in (*self._misfits(documents), *self._schema_errors(documents)):
            raise ConfigRefusedError(f"the configuration from {origin} is refused: {problem}")
        return Acquired(origin, documents)

    def _misfits(self, documents: Sequence[Mapping[str, Any]]) -> list[str]:
        """Say what does not fit this machine, whatever the schema thinks of it."""
        machines = [document for document in documents if "kind" not in document]
        if len(machines) != 1:
            return [f"{len(machines)} v1alpha1 documents"]
        found = [] if machines[0].get("version") == "v1alpha1" else ["version"]
        for document in documents:
            if document.get("kind") == "UnattendedInstallConfig":
                found += self._disk_misfit(document["provisioning"]["diskSelector"]["match"])
            if document.get("kind") == "LinkAliasConfig" and self.host.mac not in document["selector"]["match"]:
                found.append(f"no link of this machine for the alias {document['name']}")
        return found

    def _disk_misfit(self, expression: str) -> list[str]:
        matched = re.fullmatch(r'disk\.serial\.matches\((".*")\)', expression)
        if matched is None or not re.search(json.loads(matched[1]), self.host.disk.serial):
            return [f"the install disk {expression} is not this machine's"]
        return []

    def _schema_errors(self, documents: Sequence[Mapping[str, Any]]) -> list[str]:
        if self.host.schema is None:
            return []
        definitions = json.loads(self.host.schema.read_text())["$defs"]
        return [error for document in documents for error in schema_errors(definitions, document)]

    def _state(self) -> bytes | None:
        for partition in partitions_of(self.host.disk):
            if partition.label == STATE_LABEL:
                return ToolVolumes().read(self.host.disk, partition, STATE_FILE)
        return None

    def _keep(self, content: bytes) -> None:
        for partition in partitions_of(self.host.disk):
            if partition.label == STATE_LABEL:
                ToolVolumes().write(self.host.disk, partition, {STATE_FILE: content})


def schema_errors(definitions: Mapping[str, Any], document: Mapping[str, Any]) -> list[str]:
    """Return what Talos's published schema has against one document.

    The schema spells the kind UnattendedInstallConfig otherwise than Talos's registry of kinds does; the registry rules.
    """
    kind = document.get("kind")
    spelled = {**document, "kind": "UnattendedInstall"} if kind == "UnattendedInstallConfig" else document
    name = "v1alpha1.Config"
    if kind is not None:
        named = [
            name
            for name, definition in definitions.items()
            if spelled["kind"] in (definition.get("properties", {}).get("kind") or {}).get("enum", ())
        ]
        if not named:
            return [f"there is no kind {kind}"]
        name = named[0]
    rules = {"$defs": definitions, "$ref": f"#/$defs/{name}"}
    return [
        f"{name} at {error.json_path}: {error.message}" for error in Draft202012Validator(rules).iter_errors(spelled)
    ]


def _trusted(early: bytes) -> ssl.SSLContext:
    context = ssl.create_default_context()
    for document in yaml.safe_load_all(early) if early else ():
        if document and document.get("kind") == "TrustedRootsConfig":
            context.load_verify_locations(cadata=document["certificates"])
    return context


def trusted_roots(certificates: str) -> str:
    """Return a `talos.config.early` that adds these authorities (PEM) to the public ones."""
    document = {"apiVersion": "v1alpha1", "kind": "TrustedRootsConfig", "name": "fleetd", "certificates": certificates}
    return base64.b64encode(zstandard.ZstdCompressor().compress(yaml.safe_dump(document).encode())).decode()
