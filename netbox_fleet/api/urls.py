from django.urls import path
from netbox.api.routers import NetBoxRouter

from netbox_fleet.api.views.baseline import BaselineViewSet
from netbox_fleet.api.views.endorsementkey import EndorsementKeyViewSet
from netbox_fleet.api.views.machine import MachineViewSet
from netbox_fleet.api.views.nodes import NodesView
from netbox_fleet.api.views.readonly import (
    AttestationViewSet,
    BootCheckViewSet,
    DeviceCertificateViewSet,
    MachineClassViewSet,
    RunViewSet,
    StatementViewSet,
)
from netbox_fleet.api.views.service import DeclarationsView, ReportsView

app_name = "netbox_fleet"

router = NetBoxRouter()
router.register("machines", MachineViewSet)
router.register("machine-classes", MachineClassViewSet)
router.register("endorsement-keys", EndorsementKeyViewSet)
router.register("attestations", AttestationViewSet)
router.register("device-certificates", DeviceCertificateViewSet)
router.register("runs", RunViewSet)
router.register("boot-checks", BootCheckViewSet)
router.register("baselines", BaselineViewSet)
router.register("statements", StatementViewSet)

urlpatterns = [
    path("declarations/", DeclarationsView.as_view(), name="declarations"),
    path("nodes/", NodesView.as_view(), name="nodes"),
    path("reports/", ReportsView.as_view(), name="reports"),
    *router.urls,
]
