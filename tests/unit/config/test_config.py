import os
from pathlib import Path

import pytest

from fleetd.config import ConfigError, effective, load_settings, secret_problems
from fleetd.secret_files import SecretFileError, read_secret, secret_text


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith("FLEETD_"):
            monkeypatch.delenv(name)


def a_config(tmp_path: Path, text: str = "") -> Path:
    path = tmp_path / "fleetd.toml"
    path.write_text(text)
    return path


def secret(tmp_path: Path, content: bytes = b"hush\n", mode: int = 0o600) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_an_empty_file_gives_the_defaults(tmp_path):
    settings = load_settings(a_config(tmp_path))

    assert (settings.machine.port, settings.inside.host, settings.intervals.check) == (7443, "127.0.0.1", 3600)


def test_every_unknown_key_is_an_error_with_its_path(tmp_path):
    path = a_config(tmp_path, 'colour = "blue"\n[database]\nurls = "x"\n[deadlines]\nlunch = 3\n')

    with pytest.raises(ConfigError) as caught:
        load_settings(path)

    where = {error.split(":")[0] for error in caught.value.errors}
    assert where == {"colour", "database.urls", "deadlines"}


def test_the_environment_wins_over_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("FLEETD_MACHINE__PORT", "9443")
    settings = load_settings(a_config(tmp_path, '[machine]\nport = 8443\npublic_url = "https://f"\n'))

    assert (settings.machine.port, settings.machine.public_url) == (9443, "https://f")


def test_a_misspelt_variable_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("FLEETD_DATABSE__URL", "x")

    with pytest.raises(ConfigError, match="FLEETD_DATABSE__URL"):
        load_settings(a_config(tmp_path))


def test_a_file_that_was_named_must_exist(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load_settings(tmp_path / "nowhere.toml")


def test_a_file_that_is_no_toml_is_an_error(tmp_path):
    with pytest.raises(ConfigError):
        load_settings(a_config(tmp_path, "a = "))


def test_another_database_than_postgresql_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="only PostgreSQL"):
        load_settings(a_config(tmp_path, '[database]\nurl = "sqlite://"\n'))


def test_shown_values_hide_passwords(tmp_path):
    settings = load_settings(a_config(tmp_path, '[database]\nurl = "postgresql://u:geheim@h/d"\n'))

    assert "geheim" not in str(effective(settings))


def test_a_password_comes_from_its_file(tmp_path):
    path = secret(tmp_path, b"p@ss/word\n")
    settings = load_settings(a_config(tmp_path, f'[database]\nurl = "postgresql://u@h/d"\npassword_file = "{path}"\n'))

    assert settings.database.address() == "postgresql+psycopg://u:p%40ss%2Fword@h/d"


def test_times_of_the_engine_come_from_the_file(tmp_path):
    settings = load_settings(
        a_config(tmp_path, "[waits]\nsilence = 3\n[intervals]\ncheck = 10\n[deadlines]\npower = 2\n")
    )

    assert settings.timing().silence.total_seconds() == 3
    assert settings.timing().check_interval.total_seconds() == 10
    assert settings.class_deadlines().power.total_seconds() == 2


def test_the_pauses_of_a_waiting_machine_come_from_the_file_and_must_be_in_order(tmp_path):
    settings = load_settings(a_config(tmp_path, "[waits]\napproval_pause = 1\nlongest_approval_pause = 20\n"))
    assert settings.timing().approval_pause.total_seconds() == 1
    assert settings.timing().longest_approval_pause.total_seconds() == 20

    with pytest.raises(ConfigError) as refused:
        load_settings(a_config(tmp_path, "[waits]\napproval_pause = 30\nlongest_approval_pause = 20\n"))
    assert refused.value.errors == ("waits: Value error, longest_approval_pause is shorter than approval_pause",)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_secret_that_others_can_read_is_refused(tmp_path, mode):
    with pytest.raises(SecretFileError, match="chmod 0600"):
        read_secret(secret(tmp_path, mode=mode))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_secret_of_another_user_is_refused(tmp_path):
    path = secret(tmp_path)
    os.chown(path, 12345, 0)

    with pytest.raises(SecretFileError, match="owned by user 12345"):
        read_secret(path)


def test_a_secret_must_be_there_and_say_something(tmp_path):
    for path in (tmp_path / "none", secret(tmp_path, b"\n"), tmp_path):
        with pytest.raises(SecretFileError):
            read_secret(path)


def test_a_fifo_does_not_hang_the_service(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path, 0o600)

    with pytest.raises(SecretFileError, match="not a regular file"):
        read_secret(path)


def test_binary_secrets_keep_every_byte(tmp_path):
    assert read_secret(secret(tmp_path, b"\x00\n")) == b"\x00\n"
    assert secret_text(secret(tmp_path, b"hush \n")) == "hush "


def test_every_secret_file_that_cannot_be_used_is_named(tmp_path):
    path = secret(tmp_path, mode=0o644)
    settings = load_settings(a_config(tmp_path, f'[netbox]\ntoken_file = "{path}"\n'))

    problems = secret_problems(settings)

    assert [problem.split(":")[0] for problem in problems] == ["netbox.token_file", "ca.server_key_file"]
