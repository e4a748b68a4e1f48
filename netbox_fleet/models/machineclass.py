from django.db import models
from django.utils.translation import gettext_lazy as _
from netbox.models import NetBoxModel


class MachineClass(NetBoxModel):
    """What can be installed on a machine and what is demanded of it; written by the service alone."""

    slug = models.SlugField(max_length=100, unique=True)
    family = models.CharField(max_length=50, help_text=_("How the operating system is delivered"))
    installable = models.BooleanField(default=False)
    reason = models.CharField(max_length=500, blank=True, help_text=_("Why it cannot be installed"))
    warning = models.CharField(max_length=500, blank=True)
    two_person = models.BooleanField(
        default=False, help_text=_("Whether everything that erases needs a second person's approval")
    )
    role = models.CharField(max_length=100, blank=True)
    digest = models.CharField(max_length=128, blank=True, help_text=_("Digest of the class declaration"))
    seen_at = models.DateTimeField(null=True, blank=True, help_text=_("When the service last reported this class"))

    class Meta:
        ordering = ("slug",)
        verbose_name = _("machine class")
        verbose_name_plural = _("machine classes")

    def __str__(self):
        return self.slug
