"""Django and NetBox inside the test process, on a database that is a copy of the cached schema.

NetBox's test mixins are Django TestCases, which pytest runs as they are; all they need is that Django is set up before
their modules are imported, and a database when they run. So importing this file writes a configuration and sets Django
up without connecting to anything, and the first test that runs brings the services.
"""

import atexit
import os
import secrets
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet_lab.places import Places

_UNSET_PORT = 9

_CONFIGURATION = """
ALLOWED_HOSTS = ["*"]
DATABASES = {{"default": {{"NAME": "unset", "USER": "fleet", "HOST": "/nonexistent", "CONN_MAX_AGE": 0}}}}
REDIS = {{
    "tasks": {{"HOST": "127.0.0.1", "PORT": {port}, "PASSWORD": "unset", "DATABASE": 12}},
    "caching": {{"HOST": "127.0.0.1", "PORT": {port}, "PASSWORD": "unset", "DATABASE": 13}},
}}
SECRET_KEY = {secret!r}
API_TOKEN_PEPPERS = {{1: {pepper!r}}}
PLUGINS = ["netbox_fleet"]
DEFAULT_PERMISSIONS = {{}}
DEVELOPER = True
RELEASE_CHECK_URL = None
CENSUS_REPORTING_ENABLED = False
ISOLATED_DEPLOYMENT = True
LOGGING = {{"version": 1, "disable_existing_loggers": True}}
"""


def _set_up_django() -> None:
    root = Places(f"netbox-{os.getpid()}").state
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    (root / "conf").mkdir(parents=True, exist_ok=True)
    for folder in ("media", "reports", "scripts", "static"):
        (root / folder).mkdir(exist_ok=True)
    (root / "conf" / "__init__.py").touch()
    words = {"secret": secrets.token_urlsafe(60), "pepper": secrets.token_urlsafe(60)}
    (root / "conf" / "configuration.py").write_text(_CONFIGURATION.format(port=_UNSET_PORT, **words))
    os.environ["NETBOX_ROOT"] = str(root)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "netbox.settings")
    import django

    django.setup()


_set_up_django()


@pytest.fixture(scope="session", autouse=True)
def django_services(lab_places, postgres, valkey) -> Iterator[None]:
    """A migrated database and a cache behind Django, for the whole session."""
    from django.conf import settings
    from django.db import connections
    from django.test.utils import setup_test_environment, teardown_test_environment

    from fleet_lab.services.netbox import netbox_schema

    template = netbox_schema(lab_places, postgres, valkey).template(plugin=True)
    name = f"test_netbox_{uuid.uuid4().hex[:8]}"
    postgres.create(name, template)
    connections["default"].settings_dict.update(NAME=name, USER=postgres.user, HOST=str(postgres.sockets), PORT="")
    for queue in settings.RQ_QUEUES.values():
        queue.update(PORT=valkey.port, PASSWORD=valkey.password)
    settings.CACHES["default"]["LOCATION"] = valkey.url(13)
    settings.CACHES["default"].get("OPTIONS", {}).update(PASSWORD=valkey.password)
    _keep_query_counts_here()
    setup_test_environment()
    yield
    teardown_test_environment()
    connections.close_all()
    postgres.drop(name)


def _keep_query_counts_here() -> None:
    """Keep the recorded query counts beside the tests: NetBox looks for them inside the app's package."""
    from utilities.testing import query_counts

    query_counts._baseline_path = lambda _app: Path(__file__).parent / "query_counts.json"


@pytest.fixture
def database(django_services) -> Iterator[None]:
    """The database for one plain test function; all it does is rolled back."""
    from django.db import transaction

    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture(scope="session")
def plugin_folder() -> Path:
    """Where the plugin's source lies."""
    import netbox_fleet

    return Path(netbox_fleet.__file__).parent
