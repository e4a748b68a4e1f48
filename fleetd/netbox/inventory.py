"""The Inventory port over NetBox's REST interface."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import pynetbox
import requests

from fleetd.core.declaration import Declaration, Vanished
from fleetd.core.names import MachineId, RunId
from fleetd.netbox.contract import HEADER, SPOKEN, contract_problem
from fleetd.netbox.records import MalformedRecordError, machine_id_of, parse_record
from fleetd.ports import DeclarationPage, OutageError, RefusedError, ReportOutcome, TooLargeError

PAGE: Final = 500
_FINAL: Final = ("succeeded", "failed", "cancelled", "withdrawn")
_BUSY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach NetBox; `ca_file` verifies a private certificate."""

    url: str
    token: str
    timeout: float = 20.0
    ca_file: str = ""


class _Impatient(requests.adapters.HTTPAdapter):
    """Gives up after a time where the caller names none, as pynetbox does not."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        super().__init__()

    def send(self, *request: Any, **how: Any) -> requests.Response:
        return super().send(*request, **{**how, "timeout": how.get("timeout") or self._timeout})


def session_of(access: Access) -> requests.Session:
    """Return a connection pool that verifies as the owner wants."""
    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Impatient(access.timeout))
    if access.ca_file:
        session.verify = access.ca_file
    return session


def headers_of(access: Access) -> dict[str, str]:
    """Return the headers that every call carries."""
    scheme = "Bearer" if access.token.startswith("nbt_") else "Token"
    return {"Authorization": f"{scheme} {access.token}", "Accept": "application/json", HEADER: SPOKEN}


class NetBoxInventory:
    """Reads declarations and posts reports. One connection pool; safe to use from several threads."""

    def __init__(self, access: Access) -> None:
        session = session_of(access)
        self._api = pynetbox.api(access.url.rstrip("/"), token=access.token)
        self._api.http_session = session
        self._session, self._access = session, access
        self._headers = headers_of(access)

    def declarations(self, cursor: str | None) -> DeclarationPage:
        """Read the next page after the cursor; None begins a full read. Malformed records are named, the rest is used."""
        answer = self._get("declarations/", {"limit": PAGE, **({"cursor": cursor} if cursor else {})})
        records, malformed = _parsed(answer)
        return DeclarationPage(
            records=records,
            cursor=str(answer.get("cursor") or ""),
            more=bool(answer.get("more")),
            full_read_required=bool(answer.get("full_read_required")),
            malformed=malformed,
        )

    def declaration(self, machine: MachineId) -> Declaration | Vanished | None:
        """Read one machine now; None means no orders. Raises RefusedError for a record that cannot be used."""
        records, malformed = _parsed(self._get("declarations/", {"machine_id": machine}))
        if malformed:
            raise RefusedError(f"NetBox's record of machine {machine} cannot be used: {malformed[0][1]}")
        # Unknown filters return everything: only the machine that was asked for counts.
        return next((record for record in records if record.machine == machine), None)

    def report(self, body: Mapping[str, Any]) -> ReportOutcome:
        """Post a `reports/` body; rows that NetBox rejects are in the outcome."""
        answer = self._call("POST", "reports/", json=dict(body))
        accepted = answer.get("accepted")
        if not isinstance(accepted, int):
            raise OutageError(
                "NetBox answered reports/ without a word of what it accepted: something else speaks there"
            )
        rejected = tuple((int(row["index"]), str(row["errors"])[:500]) for row in answer.get("rejected") or ())
        stale = tuple(MachineId(int(machine)) for machine in answer.get("stale") or ())
        return ReportOutcome(accepted, stale, rejected)

    def finished_runs(self) -> Iterator[RunId]:
        """Yield the ids of runs that NetBox holds as final."""
        try:
            for run in self._api.plugins.fleet.runs.filter(state=list(_FINAL), limit=1000):
                yield RunId(UUID(str(run.run_id)))
        except pynetbox.RequestError as error:
            raise problem_of(error.req.status_code, "runs/", str(error.error)) from error
        except (requests.RequestException, pynetbox.ContentError) as error:
            raise OutageError(f"NetBox at {self._access.url} cannot be reached: {type(error).__name__}") from error

    def _get(self, path: str, query: Mapping[str, Any]) -> dict[str, Any]:
        return self._call("GET", path, params=dict(query))

    def _call(self, method: str, path: str, **how: Any) -> dict[str, Any]:
        url = f"{self._access.url.rstrip('/')}/api/plugins/fleet/{path}"
        try:
            answer = self._session.request(
                method, url, headers=self._headers, timeout=self._access.timeout, allow_redirects=False, **how
            )
        except requests.RequestException as error:
            raise OutageError(f"NetBox at {self._access.url} cannot be reached: {type(error).__name__}") from error
        if answer.status_code == requests.codes.conflict:
            # An upgrade is under way: runs wait for it, as for a NetBox that is away.
            raise OutageError(f"NetBox does not serve {path}: {_detail_of(answer)}")
        if answer.status_code != requests.codes.ok:
            raise problem_of(answer.status_code, path, answer.text)
        problem = contract_problem(answer.headers)
        if problem:
            raise OutageError(problem)
        try:
            body = answer.json()
        except ValueError as error:
            raise OutageError(f"NetBox answered {path} with something that is no JSON") from error
        if not isinstance(body, dict):
            raise OutageError(f"NetBox answered {path} with something that is no object: something else speaks there")
        return body


def _detail_of(answer: requests.Response) -> str:
    try:
        return str(answer.json()["detail"])[:300]
    except (ValueError, TypeError, KeyError):
        return answer.text[:300]


def problem_of(status: int, path: str, text: str) -> OutageError | RefusedError:
    """Return what a status that is no success means."""
    said = f"NetBox answered {status} to {path}: {text[:300]}"
    if status in _BUSY:
        return OutageError(said)
    if status == requests.codes.request_entity_too_large:
        return TooLargeError(said)
    if status in {401, 403}:
        return RefusedError(
            f"{said}. The token of the service account is wrong or lacks rights: run `fleet_service_account`."
        )
    if status == requests.codes.not_found:
        return RefusedError(f"{said}. Is the plugin netbox_fleet installed there, and the address right?")
    return RefusedError(said)


def _parsed(answer: Mapping[str, Any]) -> tuple[tuple[Declaration | Vanished, ...], tuple[tuple[int | None, str], ...]]:
    records: list[Declaration | Vanished] = []
    malformed: list[tuple[int | None, str]] = []
    results = answer.get("results")
    if not isinstance(results, list):
        raise OutageError("NetBox answered declarations/ without results: something else speaks there")
    for record in results:
        try:
            records.append(parse_record(record))
        except MalformedRecordError as error:
            malformed.append((machine_id_of(record), str(error)))
    return tuple(records), tuple(malformed)
