"""The kernel of the extracted packages, and the modules that an image needs, in the order of loading."""

import lzma
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import zstandard

from fleet_lab.images.filetree import File, Node
from fleet_lab.images.packages import ImageBuildError

_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: its release, its image and where its modules are."""

    release: str
    image: Path
    modules: Path


def kernel_of(root: Path) -> Kernel:
    """The newest kernel in the extracted root.

    Raises:
        ImageBuildError: there is none.
    """
    images = sorted((root / "boot").glob("vmlinuz-*"), key=lambda path: path.stat().st_size)
    if not images:
        raise ImageBuildError("the packages hold no kernel")
    release = images[-1].name.removeprefix("vmlinuz-")
    for modules in (root / "lib" / "modules" / release, root / "usr" / "lib" / "modules" / release):
        if modules.is_dir():
            return Kernel(release, images[-1], modules)
    raise ImageBuildError(f"no modules of kernel {release}")


def load_order(wanted: Iterable[str], depends: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The wanted modules and all that they depend on, each after what it needs."""
    order: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in order:
            return
        for other in depends[name]:
            visit(other)
        order[name] = None

    for name in wanted:
        visit(name)
    return tuple(order)


def module_nodes(kernel: Kernel, wanted: Iterable[str]) -> tuple[Node, ...]:
    """The modules as plain files below `lib/modules`, and `etc/modules.load`: their paths in order of loading.

    What the kernel has built in is left out.

    Raises:
        ImageBuildError: the kernel has no such module.
    """
    paths = {_name(path): path for path in kernel.modules.rglob("*.ko*")}
    built_in = {_name(Path(line)) for line in (kernel.modules / "modules.builtin").read_text().splitlines()}
    content: dict[str, bytes] = {}
    depends: dict[str, tuple[str, ...]] = {}
    todo = [name for name in wanted if name not in built_in]
    asked = tuple(todo)
    while todo:
        name = todo.pop()
        if name in depends:
            continue
        if name not in paths:
            raise ImageBuildError(f"kernel {kernel.release} has no module {name}")
        content[name] = _plain(paths[name])
        found = _DEPENDS.search(content[name])
        names = found.group(1).decode().replace("-", "_").split(",") if found and found.group(1) else []
        depends[name] = tuple(other for other in names if other not in built_in)
        todo.extend(depends[name])
    order = load_order(asked, depends)
    listing = "".join(f"/usr/lib/modules/{name}.ko\n" for name in order)
    return (
        File("etc/modules.load", listing.encode()),
        *(File(f"usr/lib/modules/{name}.ko", content[name]) for name in order),
    )


def _name(path: Path) -> str:
    return path.name.split(".ko")[0].replace("-", "_")


def _plain(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".zst":
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data
