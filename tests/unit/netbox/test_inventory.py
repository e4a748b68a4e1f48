"""What stands in front of NetBox, or in its place, answers: nothing of it is believed."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fleetd.netbox.contract import HEADER, SPOKEN
from fleetd.netbox.inventory import Access, NetBoxInventory
from fleetd.ports import OutageError, TooLargeError

PAGE = b"<html>Back soon.</html>"


@pytest.fixture
def answers() -> list[tuple[int, str, bytes]]:
    """The next answers: status, content type, body."""
    return []


@pytest.fixture
def contract() -> list[str]:
    """What answers name as their contract; the first of the list."""
    return [SPOKEN]


@pytest.fixture
def inventory(answers: list[tuple[int, str, bytes]], contract: list[str]) -> Iterator[NetBoxInventory]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, kind, body = answers.pop(0)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            for named in contract:
                self.send_header(HEADER, named)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield NetBoxInventory(Access(f"http://127.0.0.1:{server.server_port}", "token", timeout=5))
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("body", [{}, {"detail": "maintenance"}, {"accepted": None}, {"accepted": "1"}])
def test_an_answer_that_does_not_say_what_was_accepted_accepts_no_report(inventory, answers, body):
    answers.append((200, "application/json", json.dumps(body).encode()))

    with pytest.raises(OutageError, match="accepted"):
        inventory.report({"reports": [{"machine_id": 7, "seq": 1}]})


@pytest.mark.parametrize("body", [{}, {"detail": "maintenance"}, {"results": None}])
def test_an_answer_without_results_is_no_page_of_declarations(inventory, answers, body):
    answers.append((200, "application/json", json.dumps(body).encode()))

    with pytest.raises(OutageError, match="results"):
        inventory.declarations(None)


@pytest.mark.parametrize(("named", "why"), [([], "names no contract"), (["2"], "'2'"), (["1.5"], "'1.5'")])
def test_nothing_is_believed_of_a_plugin_that_speaks_another_contract(inventory, answers, contract, named, why):
    contract[:] = named
    answers += [(200, "application/json", json.dumps({"results": [], "accepted": 1}).encode())] * 2

    with pytest.raises(OutageError, match=why):
        inventory.declarations(None)
    with pytest.raises(OutageError, match=why):
        inventory.report({"reports": [{"machine_id": 7, "seq": 1}]})


def test_a_plugin_that_does_not_serve_this_fleetds_contract_is_waited_for(inventory, answers):
    answers.append((409, "application/json", b'{"detail": "fleetd is too old", "code": "contract"}'))

    with pytest.raises(OutageError, match="fleetd is too old"):
        inventory.report({"reports": [{"machine_id": 7, "seq": 1}]})


def test_a_body_that_is_too_large_is_called_so(inventory, answers):
    answers.append((413, "text/html", b"<html>413 Request Entity Too Large</html>"))

    with pytest.raises(TooLargeError):
        inventory.report({"reports": [{"machine_id": 7, "seq": 1}]})


def test_a_netbox_that_hangs_is_given_up_also_where_its_runs_are_read():
    ended = threading.Event()

    def read(url: str) -> None:
        with pytest.raises(OutageError):
            list(NetBoxInventory(Access(url, "token", timeout=0.2)).finished_runs())
        ended.set()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        threading.Thread(target=read, args=(url,), daemon=True).start()
        assert ended.wait(5)


def test_a_page_in_place_of_runs_is_an_outage(inventory, answers):
    answers.append((200, "text/html", PAGE))

    with pytest.raises(OutageError):
        list(inventory.finished_runs())
