"""cloud-init's own check of user-data, on hosts that have the program."""

import io
import shutil
import subprocess
import tarfile
import tempfile

_SECONDS = 60


def schema_problem(seed: bytes) -> str:
    """Say what `cloud-init schema` has against the user-data of a NoCloud seed, or nothing; nothing without the program.

    Give it a redacted seed: its words are shown.
    """
    program = shutil.which("cloud-init")
    if program is None:
        return ""
    with tarfile.open(fileobj=io.BytesIO(seed)) as files, tempfile.NamedTemporaryFile(suffix="-user-data") as file:
        stream = files.extractfile("user-data")
        assert stream is not None
        file.write(stream.read())
        file.flush()
        command = [program, "schema", "--config-file", file.name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"cloud-init schema did not run: {type(error).__name__}"
        said = (done.stdout + done.stderr).replace(file.name, "user-data")
    return "" if done.returncode == 0 else f"cloud-init schema: {' '.join(said.split())[:500]}"
