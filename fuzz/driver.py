"""Runs one fuzz target under atheris: libFuzzer, guided by the coverage of our own code.

Every target takes libFuzzer's options, `-max_total_time=SECONDS` among them (default 60). In the current folder it keeps
the inputs that reached something new (`corpus-TARGET`, the start of the next run) and one that failed (`crash-..`, which
is run once more where it is given as an argument).
"""

import gc
import sys
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from types import FunctionType

import atheris

DEFAULT_SECONDS = 60
CORPUS = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Recorded evidence of real machines; used as seeds where it is at hand."""
_OURS = ("fleetd.",)


def recorded(folder: str, suffix: str, largest: int = 64 * 1024) -> list[bytes]:
    """Return recorded evidence to start from; nothing where the folder is not at hand."""
    files = sorted((CORPUS / folder).glob(f"*{suffix}")) if (CORPUS / folder).is_dir() else []
    return [file.read_bytes() for file in files if file.stat().st_size <= largest]


def run(target: Callable[[bytes], None], seeds: Iterable[bytes]) -> None:
    """Feed the target until the time is over; whatever it raises ends the process and names the input."""
    _instrument()
    given = sys.argv[1:]
    if not any(option.startswith("-max_total_time=") for option in given):
        given = [f"-max_total_time={DEFAULT_SECONDS}", *given]
    corpus = Path(f"corpus-{Path(sys.argv[0]).stem}")
    corpus.mkdir(exist_ok=True)
    for seed in seeds:
        (corpus / sha256(seed).hexdigest()).write_bytes(seed)
    inputs = [] if any(Path(option).is_file() for option in given) else [str(corpus)]
    atheris.Setup([sys.argv[0], "-timeout=20", "-print_final_stats=1", *given, *inputs], target)
    atheris.Fuzz()


def _instrument() -> None:
    """Count the branches of our own functions only: those of libraries would drown them, and take minutes."""
    for thing in gc.get_objects():
        if isinstance(thing, FunctionType) and (thing.__module__ or "").startswith(_OURS):
            atheris.instrument_func(thing)
