"""Which files of the extracted packages an image gets: patterns, and all that their programs load."""

import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from fleet_lab.images.filetree import File, Folder, Link, Node
from fleet_lab.images.packages import ImageBuildError

# Debian's usrmerge: these are links into usr in an installed system, and folders in the packages of Debian 12.
_MERGED = ("bin", "sbin", "lib", "lib64")

MERGED_LINKS: tuple[Node, ...] = tuple(Link(name, f"usr/{name}") for name in _MERGED)


def merged(path: str) -> str:
    """The path below `usr` of a path of the extracted root."""
    return f"usr/{path}" if path.split("/", 1)[0] in _MERGED else path


# What Python brings along and no image needs; its libraries are a fifth of a small initrd.
_UNUSED = re.compile(
    r"""(^|/)usr/lib/python3\.\d+/(lib-dynload/|__pycache__/)?(
    curses|dbm|doctest|idlelib|lib2to3|mailbox|pickletools|pydoc|pydoc_data|sqlite3|turtle|unittest|venv|wsgiref|xmlrpc
    |_codecs_(cn|hk|jp|kr|tw|iso2022)|_crypt|_curses|_curses_panel|_dbm|_gdbm|_lsprof|_sqlite3|_tkinter|audioop|nis
    |ossaudiodev|readline|_ctypes_test|_test\w*|_xx\w*|xxlimited\w*
    )(\.|/|$)""",
    re.VERBOSE,
)


def select(root: Path, patterns: Iterable[str]) -> tuple[Node, ...]:
    """The files under `root` that match the patterns (pathlib globs), and the shared libraries that they need.

    A pattern that names a folder takes everything below it; `bin/x` finds `usr/bin/x` too, and the reverse. Paths come out in the merged-usr layout.

    Raises:
        ImageBuildError: a pattern matches nothing, or a library is not there.
    """
    found: dict[str, Path] = {}
    for pattern in patterns:
        matches = [path for spelling in _spellings(pattern) for path in root.glob(spelling)]
        if not matches:
            raise ImageBuildError(f"no package has {pattern}")
        for path in matches:
            for member in _below(path):
                name = str(member.relative_to(root))
                if not _UNUSED.search(name):
                    found[name] = member
    _add_libraries(root, found)
    return tuple(_node(merged(name), path) for name, path in sorted(found.items()))


def _spellings(pattern: str) -> tuple[str, str]:
    """A pattern as it is and in the other layout: releases differ in which packages have moved into usr."""
    return (pattern, pattern.removeprefix("usr/")) if pattern.startswith("usr/") else (pattern, f"usr/{pattern}")


def _below(path: Path) -> Iterator[Path]:
    yield path
    if path.is_dir() and not path.is_symlink():
        yield from (member for member in path.rglob("*") if member.suffix != ".a")


def _node(name: str, path: Path) -> Node:
    if path.is_symlink():
        target = str(path.readlink())
        return Link(name, "/" + merged(target[1:]) if target.startswith("/") else _relative(name, path, target))
    if path.is_dir():
        return Folder(name)
    return File(name, path, 0o755 if path.stat().st_mode & 0o111 else 0o644)


def _relative(name: str, path: Path, target: str) -> str:
    """A relative link, made absolute where merging moved it (`/lib64/ld…` points out of its folder)."""
    if not target.startswith("../"):
        return target
    parts = list(Path(name).parent.parts)
    if name.startswith("usr/") and "usr" not in path.parts[-len(parts) - 1 :]:
        parts = parts[1:]
    for part in Path(target).parts:
        if part == "..":
            parts = parts[:-1]
        else:
            parts.append(part)
    return "/" + merged("/".join(parts))


def _add_libraries(root: Path, found: dict[str, Path]) -> None:
    libraries = _library_index(root)
    for folder in ("usr/lib64", "lib64"):
        for loader in (root / folder).glob("ld-linux*"):
            found[str(loader.relative_to(root))] = loader
    todo = [path for path in found.values() if _is_elf(path)]
    while todo:
        missing: list[Path] = []
        for name in needed_libraries(todo):
            if name not in libraries:
                raise ImageBuildError(f"no package has the library {name}")
            for path in _with_targets(libraries[name]):
                relative = str(path.relative_to(root))
                if relative not in found:
                    found[relative] = path
                    missing.append(path)
        todo = [path for path in missing if _is_elf(path)]


def _library_index(root: Path) -> dict[str, Path]:
    index: dict[str, Path] = {}
    for folder in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib64", "lib64"):
        for path in (root / folder).glob("*.so*"):
            index.setdefault(path.name, path)
    return index


def _with_targets(path: Path) -> Iterator[Path]:
    """The file and, when it is a link to a neighbour, what the link leads to."""
    yield path
    if path.is_symlink():
        target = path.readlink()
        neighbour = path.parent / target.name
        if neighbour != path and neighbour.exists() and len(target.parts) == 1:
            yield from _with_targets(neighbour)


def _is_elf(path: Path) -> bool:
    if path.is_symlink() or not path.is_file() or path.suffix == ".ko":
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def needed_libraries(files: Iterable[Path]) -> set[str]:
    """Names of the libraries (DT_NEEDED) of ELF files, as readelf(1) tells them."""
    names = [str(path) for path in files]
    if not names:
        return set()
    told = subprocess.run(["readelf", "-W", "-d", *names], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", told))
