"""The lab's services are real, private and leave nothing behind."""

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import redis

from fleet_lab.places import LabError
from fleet_lab.services.process import Child


def test_postgres_listens_on_no_tcp_port(postgres):
    assert postgres.sql("show listen_addresses") == ""


def test_a_database_is_a_copy_of_its_template(postgres):
    postgres.drop("t_copy")
    postgres.drop("t_original")
    postgres.create("t_original")
    postgres.sql("create table seen (n int); insert into seen values (7)", "t_original")

    postgres.create("t_copy", "t_original")

    assert postgres.sql("select n from seen", "t_copy") == "7"
    postgres.drop("t_copy")
    postgres.drop("t_original")


def test_valkey_refuses_who_does_not_know_the_password(valkey):
    stranger = redis.Redis(port=valkey.port)

    with pytest.raises(redis.exceptions.AuthenticationError):
        stranger.ping()
    assert redis.Redis.from_url(valkey.url(0)).ping()


def test_a_program_that_ends_at_once_is_an_error_with_its_own_words(tmp_path):
    child = Child("sh", ["sh", "-c", "echo no such disk; exit 4"], tmp_path / "log").start()

    with pytest.raises(LabError, match=r"(?s)ended with status 4.*no such disk"):
        child.wait_until(lambda: False)


def ended(pid: int) -> bool:
    """Tell whether a process ends: a killed one is gone, or a zombie, as soon as it is scheduled."""
    stat = Path(f"/proc/{pid}/stat")
    for _ in range(200):
        try:
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


def test_stopping_a_program_ends_what_it_started(tmp_path):
    child = Child("sh", ["sh", "-c", "sleep 600 & echo $!; wait"], tmp_path / "log").start()
    child.wait_until(lambda: (tmp_path / "log").read_text().strip().isdigit())
    grandchild = int((tmp_path / "log").read_text())

    child.stop()

    assert ended(grandchild)


def test_a_free_port_can_be_bound():
    from fleet_lab.places import free_port

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))


def test_a_program_outlives_the_thread_that_asked_for_it(tmp_path):
    child = Child("sleep", ["sleep", "600"], tmp_path / "log")
    thread = threading.Thread(target=child.start)

    thread.start()
    thread.join()

    with pytest.raises(LabError, match="not ready"):
        child.wait_until(lambda: False, seconds=0.5)
    child.stop()


def test_nothing_of_ours_runs_between_fork_and_exec(tmp_path):
    """A child forked from a process with threads of gRPC inherits locks that nobody will ever open."""
    script = (
        "import os, sys; from pathlib import Path; from fleet_lab.services.process import Child\n"
        "os.register_at_fork(after_in_child=lambda: os.write(2, b'ran in the fork'))\n"
        "Child('true', ['true'], Path(sys.argv[1])).start().process.wait(10)\n"
    )
    log = tmp_path / "true.log"

    ran = subprocess.run([sys.executable, "-c", script, str(log)], capture_output=True, check=True, timeout=60)

    assert b"ran in the fork" not in ran.stderr
    assert log.read_bytes() == b""


def test_a_program_dies_with_the_lab(tmp_path):
    script = (
        "import sys; from pathlib import Path; from fleet_lab.services.process import Child\n"
        "print(Child('sleep', ['sleep', '300'], Path(sys.argv[1])).start().process.pid, flush=True)\n"
        "import os, signal, time; time.sleep(0.5); os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    ran = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "log")], capture_output=True, text=True, check=False, timeout=60
    )

    deadline = time.monotonic() + 20
    while not ended(int(ran.stdout)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ended(int(ran.stdout))
