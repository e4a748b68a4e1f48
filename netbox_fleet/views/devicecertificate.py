from django.http import HttpResponse
from django.utils.translation import gettext_lazy as _
from extras.ui.panels import CustomFieldsPanel, TagsPanel
from netbox.object_actions import BulkExport
from netbox.ui import layout
from netbox.views import generic
from utilities.views import register_model_view

from netbox_fleet import filtersets, forms, tables
from netbox_fleet.models import DeviceCertificate
from netbox_fleet.ui import panels

__all__ = ("DeviceCertificateListView", "DeviceCertificatePEMView", "DeviceCertificateView")


@register_model_view(DeviceCertificate, "list", path="", detail=False)
class DeviceCertificateListView(generic.ObjectListView):
    queryset = DeviceCertificate.objects.select_related("machine")
    filterset = filtersets.DeviceCertificateFilterSet
    filterset_form = forms.DeviceCertificateFilterForm
    table = tables.DeviceCertificateTable
    actions = (BulkExport,)


@register_model_view(DeviceCertificate)
class DeviceCertificateView(generic.ObjectView):
    queryset = DeviceCertificate.objects.select_related("machine")
    template_name = "generic/object.html"
    actions = ()
    layout = layout.SimpleLayout(
        left_panels=[panels.DeviceCertificatePanel(title=_("Certificate"))],
        right_panels=[panels.CertificatePEMPanel(), TagsPanel(), CustomFieldsPanel()],
    )


@register_model_view(DeviceCertificate, "pem")
class DeviceCertificatePEMView(generic.ObjectView):
    """The certificate as a file."""

    queryset = DeviceCertificate.objects.all()

    def get(self, request, **kwargs):
        certificate = self.get_object(**kwargs)
        name = f"certificate-{certificate.pk}-{certificate.kind}.pem"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "X-Content-Type-Options": "nosniff"}
        return HttpResponse(certificate.pem, content_type="application/x-pem-file", headers=headers)
