from typing import Any

from netbox.models import NetBoxModel


class GuardedModel(NetBoxModel):
    """A record some of whose fields only the actions and reports write.

    An ordinary save leaves those fields alone, so that a form or a REST update that read the record a moment ago
    can neither set an intent or a decision nor undo one that was made meanwhile.
    """

    guarded: tuple[str, ...] = ()

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding and kwargs.get("update_fields") is None:
            names = {field.name for field in self._meta.concrete_fields if not field.primary_key}
            kwargs["update_fields"] = names - set(self.guarded)
        super().save(*args, **kwargs)

    def save_guarded(self, *names: str) -> None:
        """Write these fields alone; for the actions and reports."""
        super().save(update_fields=(*names, "last_updated"))
