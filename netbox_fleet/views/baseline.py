from django.contrib import messages
from django.shortcuts import redirect, render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from extras.ui.panels import CustomFieldsPanel, TagsPanel
from netbox.object_actions import BulkExport
from netbox.ui import layout
from netbox.views import generic
from netbox.views.generic.base import BaseObjectView
from utilities.views import GetReturnURLMixin, register_model_view

from netbox_fleet import filtersets, forms, tables
from netbox_fleet.actions import baselines
from netbox_fleet.actions.refusals import RefusalError
from netbox_fleet.choices import BaselineDecisionChoices
from netbox_fleet.models import Baseline
from netbox_fleet.ui import panels


@register_model_view(Baseline, "list", path="", detail=False)
class BaselineListView(generic.ObjectListView):
    queryset = Baseline.objects.select_related("machine")
    filterset = filtersets.BaselineFilterSet
    filterset_form = forms.BaselineFilterForm
    table = tables.BaselineTable
    actions = (BulkExport,)


@register_model_view(Baseline)
class BaselineView(generic.ObjectView):
    queryset = Baseline.objects.select_related("machine")
    template_name = "generic/object.html"
    actions = ()
    layout = layout.SimpleLayout(
        left_panels=[panels.BaselinePanel(), panels.DifferencePanel(), TagsPanel(), CustomFieldsPanel()],
        right_panels=[panels.PairsPanel("pcrs", title="PCRs")],
    )


class BaselineDecisionView(GetReturnURLMixin, BaseObjectView):
    """A person's word on an offered baseline."""

    queryset = Baseline.objects.select_related("machine")
    decision = ""
    verb: str | Promise = ""
    color = ""
    danger: str | Promise = ""

    def get_required_permission(self):
        return "netbox_fleet.accept_baseline"

    def get(self, request, **kwargs):
        return self._page(request, self.get_object(**kwargs), forms.BaselineDecisionForm())

    def post(self, request, **kwargs):
        baseline = self.get_object(**kwargs)
        form = forms.BaselineDecisionForm(request.POST)
        if not form.is_valid():
            return self._page(request, baseline, form)
        try:
            baselines.decide(baseline.pk, self.decision, request.user, reason=form.cleaned_data["reason"])
        except RefusalError as problem:
            return self._page(request, baseline, form, refusal=problem.detail)
        messages.success(request, _("{verb}: noted for {what}.").format(verb=self.verb, what=baseline))
        return redirect(self.get_return_url(request, baseline))

    def _page(self, request, baseline, form, refusal=""):
        offered = f"{baseline.time:%Y-%m-%d %H:%M} UTC"
        summary = [(_("Machine"), baseline.machine), (_("Digest"), baseline.digest), (_("Offered"), offered)]
        context = {
            "object": baseline,
            "form": form,
            "refusal": refusal,
            "summary": summary,
            "difference": panels.difference_rows(baseline.difference[:50]),
            "heading": f"{self.verb} {_('baseline')} {baseline}",
            "verb": self.verb,
            "color": self.color,
            "danger": self.danger,
            "return_url": self.get_return_url(request, baseline),
        }
        return render(request, "netbox_fleet/action.html", context)


@register_model_view(Baseline, "accept")
class BaselineAcceptView(BaselineDecisionView):
    decision = BaselineDecisionChoices.ACCEPT
    verb = _("Accept")
    color = "green"


@register_model_view(Baseline, "decline")
class BaselineDeclineView(BaselineDecisionView):
    decision = BaselineDecisionChoices.DECLINE
    verb = _("Decline")
    color = "red"
    danger = _("The machine goes into quarantine: its certificates are put on hold.")
