"""What a person does with the plugin's pages, by clicking and typing: each function is one step."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from fleet_lab.demo.owner import Node
from tests.e2e.browser import PATIENCE, Visitor
from tests.e2e.people import Person

LIVE = ".fleet-live"
"""The part of a Machine's or Run's page that refreshes itself."""


def sign_in(visitor: Visitor, person: Person) -> None:
    """Sign in; what was asked for before comes next."""
    page = visitor.page
    if visitor.path != "/login/":
        visitor.go("/login/")
    page.get_by_label("Username").fill(person.name)
    page.get_by_label("Password").fill(person.password)
    page.get_by_role("button", name="Sign In").click()
    expect(page.get_by_label("Toggle navigation")).to_be_attached()


def menu(page: Page, heading: str, item: str) -> None:
    """Choose an item of the menu at the side."""
    _menu_item(page, heading, item).get_by_role("link", name=item, exact=True).click()
    expect(page).to_have_title(re.compile("NetBox"))


def _menu_item(page: Page, heading: str, item: str) -> Locator:
    entry = page.locator("#sidebar-menu .dropdown-item", has=page.get_by_role("link", name=item, exact=True))
    if not entry.is_visible():
        page.locator("#sidebar-menu").get_by_role("button", name=heading, exact=True).click()
    return entry


def import_rows(page: Page, heading: str, item: str, rows: Sequence[dict[str, str]]) -> None:
    """Import records of a menu's item from rows of a spreadsheet."""
    entry = _menu_item(page, heading, item)
    entry.hover()  # core shows what else an item offers to whoever points at it
    entry.get_by_label("Import").click()
    page.locator("#id_data").fill(as_csv(rows))
    page.locator("#import-form").get_by_role("button", name="Submit").click()
    expect(page.get_by_text(re.compile(rf"Imported {len(rows)} "))).to_be_visible()


def as_csv(rows: Sequence[dict[str, str]]) -> str:
    """Return rows as a spreadsheet exports them."""
    text = io.StringIO()
    table = csv.DictWriter(text, rows[0], lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def import_nodes(page: Page, nodes: Iterable[Node]) -> None:
    """Import machines as an owner has them in a spreadsheet: devices with their port and addresses, then what is ours."""
    nodes = list(nodes)
    kind = {"role": "Node", "manufacturer": "Fleet lab", "device_type": "Lab machine", "site": "Lab"}
    devices = [{"name": node.name, "serial": node.serial, "status": "planned", **kind} for node in nodes]
    import_rows(page, "Devices", "Devices", devices)
    ports = [{"device": node.name, "name": "eth0", "type": "1000base-t"} for node in nodes]
    import_rows(page, "Devices", "Interfaces", ports)
    at = [{"device": node.name, "interface": "eth0", "is_primary": "true"} for node in nodes]
    cards = [{"mac_address": node.mac, **port} for node, port in zip(nodes, at, strict=True)]
    import_rows(page, "Devices", "MAC Addresses", cards)
    addresses = [
        {"address": f"{node.address}/16", "status": "active", **port} for node, port in zip(nodes, at, strict=True)
    ]
    import_rows(page, "IPAM", "IP Addresses", addresses)
    machines = [
        {
            "device": node.name,
            "machine_class": node.machine_class,
            "disk_serial": node.disk_serial,
            "bmc_address": node.bmc_address,
            "bmc_secret": node.bmc_secret,
        }
        for node in nodes
    ]
    import_rows(page, "Fleet", "Machines", machines)


def open_machine(page: Page, name: str) -> None:
    """Open a machine's page from the list."""
    menu(page, "Fleet", "Machines")
    page.get_by_role("link", name=name, exact=True).first.click()
    expect(page.locator(LIVE)).to_be_visible()


def ask(page: Page, action: str, serial: str = "", reason: str = "") -> None:
    """Ask for an action on the machine whose page is open."""
    page.get_by_role("button", name=action, exact=True).click()
    confirm(page, action, serial, reason)


def confirm(page: Page, action: str, serial: str = "", reason: str = "") -> None:
    """Fill in the page that every action has before it begins, and send it."""
    if serial:
        page.get_by_label("Type the disk serial to confirm").fill(serial)
    if reason:
        page.get_by_label("Reason").fill(reason)
    page.locator("form.form").get_by_role("button", name=action, exact=True).click()


def follow(page: Page, *wanted: str) -> list[str]:
    """Watch the part that refreshes itself until it shows one of these words; return all that it showed, in order.

    The page is never loaded again: a mark that only this document carries is still there at the end.
    """
    page.evaluate("window.sameDocument = true")
    told = [page.locator(LIVE).first.inner_text()]
    while not any(word in told[-1] for word in wanted):
        page.wait_for_function(
            "([where, before]) => (document.querySelector(where) ?? {innerText: before}).innerText !== before",
            arg=[LIVE, told[-1]],
            timeout=PATIENCE,
        )
        told.append(page.locator(LIVE).first.inner_text())
    assert page.evaluate("window.sameDocument"), "the page was loaded anew"
    return told


def approve_waiting_key(page: Page, fingerprint: str) -> None:
    """Approve a key out of what the overview says is waiting, by the fingerprint on the machine's console."""
    menu(page, "Fleet", "Overview")
    waiting = page.locator(".card", has=page.get_by_role("heading", name="Keys that wait for approval"))
    waiting.get_by_role("link", name=fingerprint).click()
    ask(page, "Approve", reason="The machine's console shows the same fingerprint.")


def fingerprint_on(console: Path) -> str:
    """Return the fingerprint that a machine which waits prints, as NetBox abbreviates it."""
    *_, last = re.findall(
        r"Fingerprint of this machine's TPM, to compare with NetBox: ([0-9a-f ]+)", console.read_text()
    )
    return last.replace(" ", "")[:16]


def retire(page: Page, device: str) -> None:
    """Set a Device to decommissioning on core's own page."""
    menu(page, "Devices", "Devices")
    page.get_by_role("link", name=device, exact=True).first.click()
    page.get_by_role("button", name="Edit", exact=True).click()
    choose(page, "Status", "Decommissioning")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Modified device")).to_be_visible()


def choose(page: Page, label: str, option: str) -> None:
    """Choose from one of core's select fields, which are boxes to type in."""
    page.locator(".ts-control", has=page.get_by_role("combobox", name=re.compile(f"^{label}"))).click()
    page.get_by_role("option", name=option).click()
