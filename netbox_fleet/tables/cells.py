"""Cells that more than one table shows."""

import django_tables2 as tables
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from netbox.tables import columns

PERCENT = (
    '<div class="d-flex align-items-center" style="min-width: 7rem">'
    '<div class="progress flex-fill me-2" role="progressbar" aria-label="{}" aria-valuenow="{}" aria-valuemin="0"'
    ' aria-valuemax="100"><div class="progress-bar" style="width: {}%"></div></div><span>{}%</span></div>'
)

SHORT = '{% if value %}<code title="{{ value }}">{{ value|truncatechars:17 }}</code>{% endif %}'

ID = '<code title="{{ value }}">{{ value|stringformat:"s"|slice:":8" }}</code>'

DRIFT = "{% for row in value %}{{ row.field }}{% if not forloop.last %}, {% endif %}{% endfor %}"

FINDINGS = "{% if value %}{{ value|length }}{% else %}0{% endif %}"


class PercentColumn(tables.Column):
    """A bar and its number; no template, since one is compiled anew for each cell of a list."""

    def __init__(self, **kwargs):
        nothing = format_html('<span class="text-muted">{}</span>', "\u2014")
        super().__init__(verbose_name=_("Progress"), default=nothing, **kwargs)

    def render(self, value, record):
        return format_html(PERCENT, record, value, value, value)

    def value(self, value):
        return str(value)


class HexColumn(columns.TemplateColumn):
    """The beginning of a long hexadecimal word; an export has all of it."""

    def __init__(self, **kwargs):
        super().__init__(template_code=SHORT, **kwargs)

    def value(self, value=None, **kwargs):
        return value or ""


class IdColumn(columns.TemplateColumn):
    """The first eight digits of a UUID; an export has all of it."""

    def __init__(self, **kwargs):
        super().__init__(template_code=ID, **kwargs)

    def value(self, value=None, **kwargs):
        return str(value or "")


class TimeColumn(columns.DateTimeColumn):
    """A time to the minute, on one line."""

    def __init__(self, **kwargs):
        super().__init__(timespec="minutes", attrs={"td": {"class": "text-nowrap"}}, **kwargs)


class MessageColumn(tables.Column):
    """A sentence, which keeps room for some words on each line."""

    def __init__(self, **kwargs):
        super().__init__(attrs={"td": {"style": "min-width: 12rem; overflow-wrap: anywhere"}}, **kwargs)


class FindingsColumn(columns.TemplateColumn):
    """How many findings there are."""

    def __init__(self, **kwargs):
        super().__init__(template_code=FINDINGS, orderable=False, **{"verbose_name": _("Findings"), **kwargs})

    def value(self, value=None, **kwargs):
        return str(len(value or ()))


class DriftColumn(columns.TemplateColumn):
    """In which fields the machine's own report differs from what is declared."""

    def __init__(self, **kwargs):
        super().__init__(template_code=DRIFT, verbose_name=_("Hardware drift"), orderable=False, **kwargs)

    def value(self, value=None, **kwargs):
        return ", ".join(str(row.get("field", "")) for row in value or () if isinstance(row, dict))


def machine_column() -> tables.Column:
    """Return a column that links to the machine of a record."""
    return tables.Column(linkify=True, verbose_name=_("Machine"))
