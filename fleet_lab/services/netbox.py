"""NetBox from PyPI with the plugin: configuration, database, the web server and the queue worker."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fleet_lab.places import CHECKOUT, LabError, Places, free_port, kept_secret
from fleet_lab.services.netbox_schema import Schema
from fleet_lab.services.postgres import Postgres
from fleet_lab.services.process import Child, stop_together
from fleet_lab.services.valkey import Valkey

_CONFIGURATION = '''\
"""NetBox of one lab; written anew at each start."""
ALLOWED_HOSTS = ["*"]
DATABASES = {{"default": {{"ENGINE": "django.db.backends.postgresql", "NAME": {database!r}, "USER": {user!r}, "HOST": {host!r}, "CONN_MAX_AGE": 60}}}}
REDIS = {{
    "tasks": {{"HOST": "127.0.0.1", "PORT": {port}, "PASSWORD": {password!r}, "DATABASE": {tasks}}},
    "caching": {{"HOST": "127.0.0.1", "PORT": {port}, "PASSWORD": {password!r}, "DATABASE": {caching}}},
}}
SECRET_KEY = {secret!r}
API_TOKEN_PEPPERS = {{1: {pepper!r}}}
PLUGINS = {plugins!r}
PLUGINS_CONFIG = {{}}
RELEASE_CHECK_URL = None
CENSUS_REPORTING_ENABLED = False
ISOLATED_DEPLOYMENT = True
DEVELOPER = {developer!r}
LOGGING = {{
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {{"console": {{"class": "logging.StreamHandler"}}}},
    "root": {{"handlers": ["console"], "level": "WARNING"}},
}}
'''


@dataclass
class NetBox:
    """A NetBox instance on one database; `root` is its NETBOX_ROOT."""

    root: Path
    database: str
    postgres: Postgres
    port: int
    children: list[Child] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What every process of this instance needs in its environment."""
        return {"NETBOX_ROOT": str(self.root), "PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"}

    def manage(self, *arguments: str, extra: Mapping[str, str] | None = None) -> str:
        """Run a management command and return what it printed.

        Raises LabError with the end of its output when it fails.
        """
        done = subprocess.run(
            [sys.executable, "-m", "netbox", *arguments],
            env={**os.environ, **self.environment, **(extra or {})},
            capture_output=True,
            text=True,
            check=False,
            cwd=self.root,
        )
        if done.returncode:
            raise LabError(f"netbox {arguments[0]} failed: {(done.stderr or done.stdout).strip()[-1500:]}")
        return done.stdout

    def shell(self, code: str, extra: Mapping[str, str] | None = None) -> str:
        """Run Python inside NetBox, with Django set up and its models importable, and return what it printed."""
        return self.manage("shell", "-v", "0", "--no-imports", "-c", code, extra=extra)

    def start(self, *, workers: int = 2, queue: bool = True, log: Path | None = None) -> None:
        """Start the web server, and the queue worker that sends webhooks."""
        folder = log or self.root.parent
        web = Child(
            "NetBox",
            [
                sys.executable,
                "-m",
                "gunicorn",
                "fleet_lab.services.netbox_wsgi:application",
                "--preload",
                "--workers",
                str(workers),
                "--threads",
                "2",
                "--timeout",
                "120",
                "--bind",
                f"127.0.0.1:{self.port}",
                "--worker-tmp-dir",
                "/dev/shm",
            ],
            folder / "netbox.log",
            self.environment,
        ).start()
        self.children.append(web)
        web.wait_until(self.answers, 600)
        if queue:
            # A worker that forks for each job copies all of NetBox each time: a third of a second of a core for a webhook.
            simple = ["--worker-class", "rq.worker.SimpleWorker"]
            command = [sys.executable, "-m", "netbox", "rqworker", *simple, "high", "default", "low"]
            self.children.append(
                Child("NetBox's queue worker", command, folder / "netbox-rq.log", self.environment).start()
            )

    def answers(self) -> bool:
        """Tell whether its login page is served."""
        import urllib.request

        try:
            with urllib.request.urlopen(self.url + "/login/", timeout=5) as page:
                return bool(page.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        """Stop its processes; the database stays."""
        stop_together(self.children)
        self.children.clear()


def make_netbox(
    places: Places,
    postgres: Postgres,
    valkey: Valkey,
    *,
    database: str = "netbox",
    redis: int = 0,
    plugins: tuple[str, ...] = ("netbox_fleet",),
    progress: Callable[[str], None] = lambda _: None,
) -> NetBox:
    """Return a NetBox whose database exists, with the tables of core and of its plugins.

    `redis` and `redis + 1` are the Valkey databases it uses. The schema comes from the cache where one is there; a
    database that is there already may lack newer migrations.
    """
    instance = _configured(places, postgres, valkey, database, redis, plugins)
    if not postgres.exists(database):
        schema = netbox_schema(places, postgres, valkey, progress)
        postgres.create(database, schema.template(plugin="netbox_fleet" in plugins))
    return instance


def netbox_schema(
    places: Places, postgres: Postgres, valkey: Valkey, progress: Callable[[str], None] = lambda _: None
) -> Schema:
    """Return the template databases of a lab's PostgreSQL."""

    def migrate(database: str, plugins: tuple[str, ...]) -> None:
        _configured(places, postgres, valkey, database, 14, plugins).manage("migrate", "--no-input", "-v", "0")

    return Schema(postgres, migrate, progress)


def _configured(
    places: Places, postgres: Postgres, valkey: Valkey, database: str, redis: int, plugins: tuple[str, ...]
) -> NetBox:
    root = places.state / f"netbox-{database}"
    (root / "conf").mkdir(parents=True, exist_ok=True)
    for folder in ("media", "reports", "scripts", "static"):
        (root / folder).mkdir(exist_ok=True)
    (root / "conf" / "__init__.py").touch()
    configuration = root / "conf" / "configuration.py"
    configuration.touch(mode=0o600)
    configuration.write_text(
        _CONFIGURATION.format(
            database=database,
            user=postgres.user,
            host=str(postgres.sockets),
            port=valkey.port,
            password=valkey.password,
            tasks=redis,
            caching=redis + 1,
            secret=kept_secret(root / "secret-key"),
            pepper=kept_secret(root / "pepper"),
            plugins=list(plugins),
            developer=False,
        )
    )
    return NetBox(root, database, postgres, free_port())
