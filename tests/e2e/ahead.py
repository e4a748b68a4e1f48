"""What fleetd's processes import, imported before they are forked: a restart then costs no seconds of imports."""

import importlib

for _module in (
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.concurrency.prefork",
    "celery.worker.consumer",
    "fleetd.cli.listeners",
    "fleetd.cli.serve",
    "fleetd.cli.work",
    "fleetd.tasks",
    "fleetd.tinkerbell.connect",
    "fleetd.tinkerbell.power",
    "fleetd.tinkerbell.provisioner",
    "fleetd.tinkerbell.reflector",
    "fleetd.wiring",
    "kombu.transport.redis",
    "kubernetes.client.api.core_v1_api",
    "psycopg",
    "uvicorn",
):
    importlib.import_module(_module)
