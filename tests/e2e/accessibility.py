"""What a page must offer to everybody: names and roles and contrast by axe-core, room on a narrow screen, the keyboard."""

from collections.abc import Sequence

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

NAMES = ("label", "select-name", "button-name", "link-name", "image-alt", "role-img-alt", "svg-img-alt")

CORE = (
    'th[aria-label="Actions"]',  # an empty link to sort by, in the head of every table of core's
    ".modal",  # core's own dialogs
    "#footer-stamp",
)
"""Parts of a page that core makes and that fail by themselves."""
CORE_COLOURS = (
    ".btn",  # white on yellow, green, cyan and teal, as on core's own pages
    ".badge",  # core's colours of choices: white on yellow, green and orange
    "code",  # a link's teal on core's grey
    ".nav-link",  # the tabs, in dark mode
)
"""Classes of core's style sheet whose colours are core's, wherever they stand."""


def nameless(page: Page) -> list[str]:
    """Return what axe-core finds wrong with names and roles in the content of a page, in one line each."""
    return _broken(page, [rule for rule in _rules(page) if rule.startswith("aria-") or rule in NAMES], CORE)


def faint(page: Page) -> list[str]:
    """Return the words of the page's content that axe-core finds too faint, in one line each."""
    return _broken(page, ["color-contrast"], (*CORE, *CORE_COLOURS))


def _rules(page: Page) -> list[str]:
    page.evaluate(Axe().axe_script)
    return [rule["ruleId"] for rule in page.evaluate("axe.getRules()")]


def _broken(page: Page, rules: Sequence[str], exclude: Sequence[str]) -> list[str]:
    what = {"include": [["#page-content"]], "exclude": [[selector] for selector in exclude]}
    how = {"runOnly": {"type": "rule", "values": list(rules)}, "resultTypes": ["violations"]}
    found = Axe().run(page, what, how).response["violations"]
    return [f"{rule['id']}: {node['html'][:200]}" for rule in found for node in rule["nodes"]]


def overflow(page: Page) -> int:
    """Return by how many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def tab_to(page: Page, wanted: Locator, most: int = 200) -> None:
    """Press Tab until something has the focus. Raises AssertionError when that many presses do not get there."""
    for _ in range(most):
        if wanted.evaluate("element => element === document.activeElement"):
            expect(wanted).to_be_focused()
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{most} presses of Tab do not reach {wanted}")
