from django.http import JsonResponse
from extras.ui.panels import CustomFieldsPanel, TagsPanel
from netbox.object_actions import BulkExport
from netbox.ui import layout
from netbox.ui.panels import ObjectsTablePanel
from netbox.views import generic
from utilities.views import register_model_view

from netbox_fleet import filtersets, forms, tables
from netbox_fleet.models import Run
from netbox_fleet.ui import panels
from netbox_fleet.ui.live import answer_if_changed


@register_model_view(Run, "list", path="", detail=False)
class RunListView(generic.ObjectListView):
    queryset = Run.objects.select_related("machine")
    filterset = filtersets.RunFilterSet
    filterset_form = forms.RunFilterForm
    table = tables.RunTable
    actions = (BulkExport,)


@register_model_view(Run)
class RunView(generic.ObjectView):
    queryset = Run.objects.select_related("machine")
    template_name = "generic/object.html"
    actions = ()
    layout = layout.SimpleLayout(
        left_panels=[panels.RunLivePanel()],
        right_panels=[
            panels.RunPanel(),
            panels.RunEvidencePanel(),
            TagsPanel(),
            CustomFieldsPanel(),
        ],
        bottom_panels=[
            ObjectsTablePanel("netbox_fleet.Attestation", filters={"run_id": lambda ctx: ctx["object"].pk}),
        ],
    )


@register_model_view(Run, "live")
class RunLiveView(generic.ObjectView):
    """The part of the page that refreshes itself."""

    queryset = Run.objects.all()

    def get(self, request, **kwargs):
        run = self.get_object(**kwargs)
        found = {"run": run, "pairs": panels.flat_pairs(run.evidence or {})}
        return answer_if_changed(request, "netbox_fleet/inc/run_update.html", found)


@register_model_view(Run, "evidence")
class RunEvidenceView(generic.ObjectView):
    """The evidence of a run as a file."""

    queryset = Run.objects.all()

    def get(self, request, **kwargs):
        run = self.get_object(**kwargs)
        body = {
            "run": str(run.run_id),
            "machine": run.machine_name,
            "kind": run.kind,
            "requester": run.requester,
            "state": run.state,
            "started": run.started,
            "ended": run.ended,
            "result": run.result,
            "error": run.error,
            "steps": run.steps,
            "evidence": run.evidence,
        }
        name = f"run-{run.run_id}.json"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
        return JsonResponse(body, headers=headers, json_dumps_params={"indent": 2})
