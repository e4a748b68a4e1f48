from django.urls import URLPattern, URLResolver, include, path
from utilities.urls import get_model_urls

from netbox_fleet import views
from netbox_fleet.views.overview import OverviewView

__all__ = ("urlpatterns", "views")

_MODELS = (
    ("machines", "machine"),
    ("machine-classes", "machineclass"),
    ("endorsement-keys", "endorsementkey"),
    ("runs", "run"),
    ("attestations", "attestation"),
    ("device-certificates", "devicecertificate"),
    ("boot-checks", "bootcheck"),
    ("baselines", "baseline"),
    ("statements", "statement"),
)

urlpatterns: list[URLPattern | URLResolver] = [path("", OverviewView.as_view(), name="overview")]
for _path, _model in _MODELS:
    urlpatterns += [
        path(f"{_path}/", include(get_model_urls("netbox_fleet", _model, detail=False))),
        path(f"{_path}/<int:pk>/", include(get_model_urls("netbox_fleet", _model))),
    ]
