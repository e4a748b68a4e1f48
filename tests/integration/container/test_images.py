"""The images of service and machine, built from Debian's packages without a registry, run without rights on a root that is read-only.

About three minutes a build on an idle host, mostly the network; `scripts/test --soak tests/integration/container` runs them.
`FLEET_IMAGES` names a folder with `service` and `machine`, built before, that are taken as they are.
"""

import http.client
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from sqlalchemy import text

from fleet_lab.fleetd_service import secret_file
from fleet_lab.places import free_port
from fleetd.store.engine import open_engine
from tests.integration.container.oci import built

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
NOBODY = 65532
LOOKS = """
import json, os
def refused(path):
    try:
        open(path, "w").close()
    except OSError as error:
        return error.strerror
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({"uid": os.getuid(), "capabilities": int(status["CapEff"], 16), "root": refused("/x"), "own": refused("/opt/fleetd/x")}))
"""

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(2400),
    pytest.mark.skipif(os.getuid() != 0, reason="unpacking files of several owners, and crun, take root here"),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    return image("service", DEPLOY / "container" / "build", tmp_path_factory)


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    return image("machine", DEPLOY / "hookos" / "build", tmp_path_factory)


def image(name, script, temporary):
    kept = os.environ.get("FLEET_IMAGES")
    folder = temporary.mktemp(name)
    return built(script, Path(kept) / name if kept else folder, folder)


@pytest.fixture
def configured(service, postgres, valkey, empty_database, tmp_path):
    """The service with a database, a broker, and keys in the only folder that it may write."""
    configuration, keys = tmp_path / "etc", tmp_path / "var"
    for folder in (configuration, keys):
        folder.mkdir()
    service.ports = {"machine": free_port(), "inside": free_port()}
    (configuration / "fleetd.toml").write_text(
        f"[database]\nurl = {json.dumps(empty_database)}\n[broker]\nurl = {json.dumps(valkey.url(9))}\n"
        f"[machine]\nhost = '127.0.0.1'\nport = {service.ports['machine']}\npublic_url = 'https://127.0.0.2:7443'\n"
        "[netbox]\nurl = 'http://127.0.0.1:9'\ntoken_file = '/etc/fleetd/netbox.token'\n"
        f"[inside]\nhost = '127.0.0.1'\nport = {service.ports['inside']}\n"
    )
    secret_file(configuration / "netbox.token", "nobody answers")
    for path in (configuration, *configuration.iterdir(), keys):
        os.chown(path, NOBODY, NOBODY)
    service.mounts = []
    service.bind(configuration, "/etc/fleetd")
    service.bind(keys, "/var/lib/fleetd", write=True)
    service.bind(postgres.sockets, str(postgres.sockets))
    mode = postgres.sockets.stat().st_mode
    postgres.sockets.chmod(0o711)
    yield service
    postgres.sockets.chmod(mode)


def test_the_service_has_no_rights_and_cannot_write_its_root(service):
    seen = json.loads(service.run("-c", LOOKS, entrypoint=("/opt/fleetd/bin/python",)).stdout)

    assert seen == {"uid": NOBODY, "capabilities": 0, "root": "Read-only file system", "own": "Read-only file system"}


def test_the_service_migrates_makes_its_keys_and_serves(configured, empty_database, tmp_path):
    for command in (("migrate",), ("ca", "init"), ("config", "check")):
        done = configured.run(*command)
        assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
    log = tmp_path / "serve.log"
    running = configured.start(log=log)  # CMD of the Containerfile
    try:
        alive = answer(configured.ports["inside"], "/healthz", running, log)
    finally:
        running.terminate()
        running.wait(60)

    assert json.loads(alive) == {"alive": True}
    engine = open_engine(empty_database)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM machines")).scalar_one() == 0
    engine.dispose()
    assert (tmp_path / "var" / "ca" / "root.pem").stat().st_uid == NOBODY


def answer(port, path, running, log):
    """Wait for the answer of the inside listener."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert running.poll() is None, log.read_text()[-2000:]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        except OSError:
            time.sleep(0.2)
        finally:
            connection.close()
    raise AssertionError(log.read_text()[-2000:])


def test_the_image_carries_what_it_installs(configured):
    done = configured.run("doctor", "--json")

    seen = {note["part"]: note["level"] for note in json.loads(done.stdout)}
    assert seen["workflows"] == "good"


def test_the_machines_image_finds_all_that_it_imports_and_calls(machine):
    done = machine.run("--help", user=NOBODY)
    assert done.returncode == 0, done.stderr
    assert "boot-check" in done.stdout

    tools = (
        "nvme",
        "hdparm",
        "mke2fs",
        "debugfs",
        "mkfs.fat",
        "blkdiscard",
        "wipefs",
        "sfdisk",
        "mcopy",
        "mkfs.xfs",
        "btrfs",
    )
    shell = "; ".join(f"command -v {tool} >/dev/null || echo {tool}" for tool in tools)
    missing = machine.run("-c", shell, entrypoint=("/bin/sh",))
    assert missing.stdout == "", "tools that are missing"

    modules = "import cryptography, tpm2_pytss, zstandard, fleet_machine.tpm, fleet_machine.disk.erase"
    assert machine.run("-c", modules, entrypoint=("/usr/bin/python3",), user=NOBODY).returncode == 0


def test_the_machines_boot_check_says_what_it_lacks_where_nothing_was_installed(machine):
    done = machine.run("boot-check", "--once")

    assert done.returncode == 1
    assert "claim-seed has to run first" in done.stdout + done.stderr


@pytest.mark.skipif(
    shutil.which("buildah") is None, reason="apt-get install buildah: it is no part of the tests' tools"
)
@pytest.mark.parametrize("name", ["service", "machine"])
def test_a_container_engine_builds_the_containerfile_without_a_registry(name, request, tmp_path):
    image = request.getfixturevalue(name)
    storage = ("--root", str(tmp_path / "storage"), "--runroot", str(tmp_path / "run"), "--storage-driver", "vfs")
    archive = tmp_path / "image.tar"
    for command in (
        ("bud", "--isolation", "chroot", "--pull-never", "--tag", name, str(image.context)),
        ("push", name, f"oci-archive:{archive}"),
    ):
        done = subprocess.run(["buildah", *storage, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
    assert archive.stat().st_size > (image.context / "rootfs.tar").stat().st_size / 10
