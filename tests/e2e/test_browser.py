"""The plugin's pages in Chromium: an owner's day by clicking, a stranger's day, and what everybody needs of a page."""

import json
import os
from pathlib import Path
from urllib.parse import urljoin

import pytest
from playwright.sync_api import expect

from fleet_lab.demo.walk import value_of
from tests.e2e.accessibility import faint, nameless, overflow, tab_to
from tests.e2e.browser import DESK, PHONE, Visitor, chromium, visitor
from tests.e2e.life import Life
from tests.e2e.owner_pages import (
    LIVE,
    approve_waiting_key,
    ask,
    confirm,
    fingerprint_on,
    follow,
    import_nodes,
    menu,
    open_machine,
    retire,
    sign_in,
)
from tests.e2e.people import make_people

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(1800)]

FLEET = "/plugins/fleet/"
PICTURES = os.environ.get("FLEET_PICTURES")
"""A folder for pictures of the pages; none are made without it."""


@pytest.fixture(scope="module")
def people(fleet):
    """Everybody with an account, by name; NetBox has a site and a kind of device, and no device yet."""
    fleet.lab.owner.enter([])
    return make_people(fleet.lab.netbox)


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture
def come(fleet, people, browser):
    """Let somebody come: by name, signed in; without one, a visitor whom NetBox does not know."""
    came = []

    def somebody(name: str = "") -> Visitor:
        who = visitor(browser, fleet.lab.netbox.url)
        came.append(who)
        if name:
            sign_in(who, people[name])
        return who

    yield somebody
    for who in came:
        who.page.context.close()


def picture(who: Visitor, name: str) -> None:
    """Keep what the visitor sees, where pictures are wanted."""
    if PICTURES:
        who.page.evaluate("document.fonts.ready")
        who.page.screenshot(path=Path(PICTURES) / f"{name}.png", animations="disabled")


def pictures_of_the_same(who: Visitor, name: str) -> None:
    """Keep the same page by day, by night and on a phone, where pictures are wanted."""
    picture(who, name)
    if PICTURES:
        who.page.evaluate("setMode('dark')")
        picture(who, f"{name}-dark")
        who.page.evaluate("setMode('light')")
        who.page.set_viewport_size(PHONE)
        picture(who, f"{name}-phone")
        who.page.set_viewport_size(DESK)


def test_an_owner_brings_a_machine_from_a_spreadsheet_to_its_retirement_by_clicking(fleet, come):
    machine, node = fleet.rack()
    owner = come("owner")

    import_nodes(owner.page, [node])
    provision_and_watch(owner, machine, node)
    accept_new_firmware(owner, machine, node)
    wipe_with_a_wrong_and_then_the_right_serial(owner, node)
    retire_and_watch(owner, node)

    assert owner.troubles == []
    kinds = [value_of(run["kind"]) for run in fleet.lab.owner.get("plugins/fleet/runs/")["results"]]
    assert sorted(kinds) == ["provision", "retire", "wipe"]


def provision_and_watch(owner, machine, node):
    page = owner.page
    open_machine(page, node.name)
    page.get_by_role("button", name="Provision", exact=True).click()
    expect(page.get_by_text("All data on the named disks is destroyed.")).to_be_visible()
    picture(owner, "provision")
    confirm(page, "Provision", node.disk_serial, "First installation.")

    told = follow(page, "The endorsement key waits")
    expect(page.get_by_text("A new endorsement key was proven.")).to_be_visible()
    assert len(told) > 1, "the page changed by itself"
    picture(owner, "waiting")
    run = urljoin(page.url, page.locator(LIVE).get_by_role("link", name="Provision").get_attribute("href"))
    menu(page, "Fleet", "Overview")
    picture(owner, "overview")
    approve_waiting_key(page, fingerprint_on(machine.console))
    expect(page.get_by_text("Approve: noted for key")).to_be_visible()

    page.goto(run)
    expect(page.get_by_role("heading", name="Progress")).to_be_visible()
    told = follow(page, "Succeeded")
    assert len(told) > 1, "the page changed by itself"
    picture(owner, "run")

    open_machine(page, node.name)
    assert "Active" in follow(page, "Trust: OK")[-1]
    expect(page.get_by_text("It is not approved yet")).to_have_count(0)
    pictures_of_the_same(owner, "active")


def accept_new_firmware(owner, machine, node):
    page = owner.page
    machine.flash("FleetLab light 2")
    machine.off()
    machine.on()

    assert "Firmware version changed from FleetLab light 1 to FleetLab light 2" in follow(page, "Drifted")[-1]
    expect(page.get_by_text("Boot changed.")).to_be_visible()
    page.locator(LIVE).get_by_role("link", name="Look at the difference").click()
    expect(page.get_by_role("heading", name="Difference")).to_be_visible()
    picture(owner, "difference")
    ask(page, "Accept", reason="I updated the firmware today.")

    expect(page.get_by_text("Accept: noted for")).to_be_visible()
    open_machine(page, node.name)
    follow(page, "Trust: OK")


def wipe_with_a_wrong_and_then_the_right_serial(owner, node):
    page = owner.page
    ask(page, "Wipe", "another-disk", "Sold.")
    expect(page.get_by_text("The typed serial is not the declared disk serial; nothing was asked.")).to_be_visible()
    picture(owner, "refused")

    confirm(page, "Wipe", node.disk_serial)
    expect(page.get_by_role("button", name="Cancel Wipe")).to_be_visible()
    told = follow(page, "The machine is wiped.")
    assert "Trust: not checked" in follow(page, "Trust: not checked")[-1]
    assert len(told) > 1, "the page changed by itself"
    picture(owner, "wiped")


def retire_and_watch(owner, node):
    page = owner.page
    retire(page, node.name)
    open_machine(page, node.name)
    follow(page, "The machine is retired.")
    picture(owner, "retired")


@pytest.fixture(scope="module")
def lived(fleet, people):
    """The life of a machine that is active, and that booted otherwise than before: NetBox has records of every kind."""
    machine, node = fleet.rack()
    life = Life(fleet.lab, machine.spec, fleet.lab.owner.enter([node])[0])
    life.ask("provision")
    life.checked()
    machine.flash("FleetLab light 2")
    machine.off()
    machine.on()
    life.drifted()
    return life


KINDS = (
    "machines",
    "machine-classes",
    "endorsement-keys",
    "runs",
    "attestations",
    "device-certificates",
    "boot-checks",
    "baselines",
    "statements",
)


def record(life, kind):
    """The id of one of the machine's records of a kind; None where it has none."""
    which = {} if kind in {"machines", "machine-classes"} else {"machine_id": life.machine}
    found = life.lab.owner.get(f"plugins/fleet/{kind}/", limit=1, **which)["results"]
    return life.machine if kind == "machines" else found[0]["id"] if found else None


def reading(life):
    """The addresses of the pages on which nothing is asked."""
    records = [f"{FLEET}{kind}/{pk}/" for kind in KINDS if (pk := record(life, kind)) is not None]
    device = f"/dcim/devices/{life.shown['device']['id']}/"
    lists = [f"{FLEET}{kind}/" for kind in KINDS]
    return [FLEET, *lists, *records, f"{FLEET}machines/{life.machine}/timeline/", device, f"{device}fleet/"]


def acting(life):
    """The addresses of the pages on which something is asked, decided or entered."""
    words = ("provision", "attest", "wipe", "cancel", "approve", "release", "declare-lost", "vouch", "edit", "delete")
    key, baseline = record(life, "endorsement-keys"), record(life, "baselines")
    return [
        *(f"{FLEET}machines/{life.machine}/{word}/" for word in words),
        *(f"{FLEET}endorsement-keys/{key}/{word}/" for word in ("approve", "reject", "edit", "delete")),
        *(f"{FLEET}baselines/{baseline}/{word}/" for word in ("accept", "decline")),
        f"{FLEET}machines/add/",
        f"{FLEET}machines/import/",
    ]


def send(who, path, **fields):
    """Send a form as the open page could, without its button, and return the status of the answer."""
    return who.page.evaluate(
        """async ([path, fields]) => (await fetch(path, {
            method: "POST", headers: {"X-CSRFToken": window.CSRF_TOKEN}, body: new URLSearchParams(fields),
        })).status""",
        [path, fields],
    )


def unchanged(life):
    """What nobody without rights may change."""
    asked = ("phase", "desired_action", "intent_id", "machine_class", "disk_serial", "node_name")
    shown = life.shown
    key, baseline = record(life, "endorsement-keys"), record(life, "baselines")
    decisions = [
        life.lab.owner.get(f"plugins/fleet/endorsement-keys/{key}/")["status"],
        life.lab.owner.get(f"plugins/fleet/baselines/{baseline}/")["decision"],
    ]
    return json.dumps([*(shown[name] for name in asked), *decisions])


def test_somebody_unknown_is_sent_to_the_login_from_every_page(lived, come):
    nobody = come()

    for path in [*reading(lived), *acting(lived)]:
        nobody.go(path)
        assert nobody.path == "/login/", path
        assert lived.spec.name not in nobody.page.content()

    assert nobody.troubles == []


def test_a_stranger_sees_no_machine_and_is_refused_every_page_and_action(lived, come):
    before = unchanged(lived)
    stranger = come("stranger")
    expect(stranger.page.locator("#sidebar-menu").get_by_role("button", name="Fleet")).to_have_count(0)

    with stranger.refused(403, 404):
        for path in [*reading(lived), *acting(lived)]:
            assert stranger.go(path) in {403, 404}, path
            assert lived.spec.name not in stranger.page.content()
        stranger.go("/")
        for path in acting(lived):
            assert send(stranger, path, confirm_serial=lived.spec.disk_serial, reason="mine now") in {403, 404}, path

    assert stranger.troubles == []
    assert unchanged(lived) == before


def test_a_viewer_reads_every_page_finds_no_action_and_is_refused_what_is_sent_past_the_pages(lived, come):
    before = unchanged(lived)
    viewer = come("viewer")

    for path in reading(lived):
        assert viewer.go(path) == 200, path
        offered = viewer.page.locator(".page-wrapper .btn-list").get_by_role("button").all_inner_texts()
        asked = {"Provision", "Attest", "Wipe", "Approve", "Reject", "Accept", "Decline", "Edit", "Delete", "Add"}
        assert not asked & {text.strip() for text in offered}, path
    with viewer.refused(403, 404):
        for path in acting(lived):
            assert send(viewer, path, confirm_serial=lived.spec.disk_serial, reason="mine now") in {403, 404}, path
            assert viewer.go(path) in {403, 404}, path
            viewer.go("/")

    assert viewer.troubles == []
    assert unchanged(lived) == before


def test_an_operator_may_ask_for_a_wipe_and_may_not_decide_about_keys_and_baselines(lived, come):
    before = unchanged(lived)
    operator = come("operator")
    decisions = [path for path in acting(lived) if "/endorsement-keys/" in path or "/baselines/" in path]

    operator.go(f"{FLEET}machines/{lived.machine}/")
    expect(operator.page.get_by_role("button", name="Wipe", exact=True)).to_be_visible()
    for kind in ("endorsement-keys", "baselines"):
        operator.go(f"{FLEET}{kind}/{record(lived, kind)}/")
        for word in ("Approve", "Reject", "Accept", "Decline"):
            expect(operator.page.get_by_role("button", name=word, exact=True)).to_have_count(0)
    with operator.refused(403):
        assert [send(operator, path) for path in decisions] == [403] * len(decisions)

    assert operator.troubles == []
    assert unchanged(lived) == before


CORE_IS_WIDER = f"{FLEET}machines/import/"
"""Core's own import page, with core's table of fields: it is as wide for every kind of record."""


def test_every_page_has_names_roles_and_contrast_in_both_colour_modes_and_fits_a_phone(lived, come):
    owner = come("owner")
    wrong = []

    for path in [*reading(lived), *acting(lived)]:
        assert owner.go(path) == 200, path
        expect(owner.page.locator("#page-content [hx-trigger=load]")).to_have_count(0)  # tables that come by themselves
        wrong += [f"{path}: {complaint}" for complaint in nameless(owner.page)]
        for mode in ("light", "dark"):
            owner.page.evaluate("mode => setMode(mode)", mode)
            wrong += [f"{path} ({mode}): {complaint}" for complaint in faint(owner.page)]
        owner.page.set_viewport_size(PHONE)
        if path != CORE_IS_WIDER and (pixels := overflow(owner.page)):
            wrong.append(f"{path}: {pixels} pixels wider than a phone")
        owner.page.set_viewport_size(DESK)

    assert wrong == []
    assert owner.troubles == []


def test_what_judges_the_pages_finds_a_nameless_button_faint_words_and_a_wide_table(browser):
    page = browser.new_page(viewport=PHONE)
    words = "<p style='color: #bbb; background: #fff'>faint</p>"
    page.set_content(f"<div id='page-content' style='width: 500px'><button></button>{words}</div>")

    assert [complaint.split(":")[0] for complaint in nameless(page)] == ["button-name"]
    assert [complaint.split(":")[0] for complaint in faint(page)] == ["color-contrast"]
    assert overflow(page) > 0
    page.close()


def test_a_wipe_can_be_asked_and_left_with_the_keyboard_alone(lived, come):
    owner = come("owner")
    page = owner.page
    owner.go(f"{FLEET}machines/{lived.machine}/")

    tab_to(page, page.get_by_role("button", name="Wipe", exact=True))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_label("Type the disk serial to confirm"))
    page.keyboard.type("another-disk")
    tab_to(page, page.locator("form.form").get_by_role("button", name="Wipe", exact=True))
    page.keyboard.press("Enter")
    expect(page.get_by_text("The typed serial is not the declared disk serial")).to_be_visible()
    tab_to(page, page.get_by_role("link", name="Back", exact=True))
    page.keyboard.press("Enter")

    expect(page.locator(LIVE)).to_be_visible()
    assert owner.troubles == []
    assert value_of(lived.shown["desired_action"]) in {"", None}
