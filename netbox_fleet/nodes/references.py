"""Names that a file uses for NetBox's records: sites, roles, device types, racks and classes, read once for all nodes."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from dcim.models import DeviceRole, DeviceType, Rack, Site
from django.db.models import Model, prefetch_related_objects

from netbox_fleet.models import MachineClass
from netbox_fleet.nodes.wire import Node, Problem


class References:
    """What this user may name, by every name that it goes by."""

    def __init__(self, user: Any) -> None:
        self._names: dict[str, dict[str, set[Model]]] = {
            "site": _by(Site.objects.restrict(user, "view"), lambda site: (site.slug, site.name)),
            "role": _by(DeviceRole.objects.restrict(user, "view"), lambda role: (role.slug, role.name)),
            "device_type": _by(
                DeviceType.objects.restrict(user, "view").select_related("manufacturer"),
                lambda kind: (kind.slug, kind.model, device_type_name(kind)),
            ),
            "class": _by(MachineClass.objects.restrict(user, "view"), lambda found: (found.slug,)),
        }
        self._racks: dict[tuple[str, str], set[Rack]] = defaultdict(set)
        for rack in Rack.objects.restrict(user, "view").select_related("site"):
            self._racks[rack.site.slug, rack.name].add(rack)

    def spell(self, nodes: list[Node]) -> list[Problem]:
        """Put the one spelling of each record in place of the name that the file uses; return what is unknown."""
        problems: list[Problem] = []
        for node in nodes:
            for key, spelling in SPELLINGS.items():
                name = node.fields.get(key)
                if name is None:
                    continue
                found = self._names[key].get(name, set())
                if len(found) == 1:
                    node.fields[key] = spelling(next(iter(found)))
                else:
                    problems.append(Problem(node.name, key, _unknown(key, name, len(found))))
        return problems

    def one(self, key: str, spelling: str | None) -> Any:
        """Return the record of a spelling that `spell` gave, or None."""
        return next(iter(self._names[key].get(spelling, ())), None) if spelling else None

    def read_templates(self, spellings: Iterable[str]) -> None:
        """Read the component templates of device types once for all the devices that will be made of them."""
        kinds = [kind for spelling in set(spellings) if (kind := self.one("device_type", spelling)) is not None]
        related = [relation for relation in DeviceType._meta.related_objects if relation.one_to_many]  # noqa: SLF001
        templates = [one.get_accessor_name() for one in related if hasattr(one.related_model, "component_model")]
        prefetch_related_objects(kinds, *templates)

    def rack(self, site: str, name: str) -> Rack | None:
        """Return the one rack of that name at the site, or None where there is none or more than one."""
        found = self._racks.get((site, name), set())
        return next(iter(found)) if len(found) == 1 else None


def device_type_name(kind: DeviceType) -> str:
    """Return `manufacturer/type`, both as slugs: unique."""
    return f"{kind.manufacturer.slug}/{kind.slug}"


SPELLINGS: dict[str, Callable[[Any], str]] = {
    "site": lambda site: str(site.slug),
    "role": lambda role: str(role.slug),
    "device_type": device_type_name,
    "class": lambda found: str(found.slug),
}


def _by(rows: Iterable[Any], names: Callable[[Any], tuple[str, ...]]) -> dict[str, set[Model]]:
    found: dict[str, set[Model]] = defaultdict(set)
    for row in rows:
        for name in names(row):
            found[name].add(row)
    return found


def _unknown(key: str, name: str, count: int) -> str:
    if count:
        return f"{count} records are called {name}: use manufacturer/slug, or the slug."
    if key == "class":
        return f"No service has reported class {name}."
    return f"No {key.replace('_', ' ')} is called {name}, or you may not view it."
