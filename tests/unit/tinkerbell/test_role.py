"""The role that owners give fleetd covers the calls it makes, and no more kinds."""

import yaml

from fleetd.tinkerbell.api import HARDWARE, JOBS, MACHINES, TASKS, TEMPLATES, WORKFLOWS
from tests.conftest import CHECKOUT


def test_the_role_names_every_kind_that_fleetd_handles() -> None:
    documents = yaml.safe_load_all((CHECKOUT / "deploy" / "kubernetes" / "rbac.yaml").read_text())
    role = next(document for document in documents if document["kind"] == "Role")
    granted = {(rule["apiGroups"][0], rule["resources"][0]) for rule in role["rules"]}
    handled = {(r.group, r.plural) for r in (HARDWARE, TEMPLATES, WORKFLOWS, MACHINES, JOBS, TASKS)}
    assert granted == handled | {("", "secrets")}
