"""Records that people only read."""

from netbox.api.viewsets import NetBoxReadOnlyModelViewSet

from netbox_fleet import filtersets, models
from netbox_fleet.api import serializers


class MachineClassViewSet(NetBoxReadOnlyModelViewSet):
    queryset = models.MachineClass.objects.prefetch_related("tags")
    serializer_class = serializers.MachineClassSerializer
    filterset_class = filtersets.MachineClassFilterSet


class RunViewSet(NetBoxReadOnlyModelViewSet):
    queryset = models.Run.objects.select_related("machine").prefetch_related("tags")
    serializer_class = serializers.RunSerializer
    filterset_class = filtersets.RunFilterSet


class AttestationViewSet(NetBoxReadOnlyModelViewSet):
    queryset = models.Attestation.objects.select_related("machine", "run").prefetch_related("tags")
    serializer_class = serializers.AttestationSerializer
    filterset_class = filtersets.AttestationFilterSet


class DeviceCertificateViewSet(NetBoxReadOnlyModelViewSet):
    queryset = models.DeviceCertificate.objects.select_related("machine").prefetch_related("tags")
    serializer_class = serializers.DeviceCertificateSerializer
    filterset_class = filtersets.DeviceCertificateFilterSet


class BootCheckViewSet(NetBoxReadOnlyModelViewSet):
    queryset = models.BootCheck.objects.select_related("machine").prefetch_related("tags")
    serializer_class = serializers.BootCheckSerializer
    filterset_class = filtersets.BootCheckFilterSet


class StatementViewSet(NetBoxReadOnlyModelViewSet):
    queryset = models.Statement.objects.select_related("machine").prefetch_related("tags")
    serializer_class = serializers.StatementSerializer
    filterset_class = filtersets.StatementFilterSet
