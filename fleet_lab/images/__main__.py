"""`python -m fleet_lab.images [NAME ..]`: builds the lab's images into the cache and says where they are."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence

from fleet_lab.images.action import build_action_image
from fleet_lab.images.alpine import build_alpine
from fleet_lab.images.cache import ImageCache, image_cache
from fleet_lab.images.cloud_init import build_cloud_init
from fleet_lab.images.debian import build_debian
from fleet_lab.images.hookos import build_hookos
from fleet_lab.images.light import build_light
from fleet_lab.images.packages import Suite, extracted_root, this_host_suite
from fleet_lab.places import LabError

type Build = Callable[[ImageCache, Suite], Sequence[str]]


def _packages(cache: ImageCache, suite: Suite) -> Sequence[str]:
    return [f"{suite.name}: {extracted_root(cache, suite)}"]


def _action(cache: ImageCache, suite: Suite) -> Sequence[str]:
    image = build_action_image(cache, suite)
    return [str(image.archive), image.digest]


def _hookos(cache: ImageCache, suite: Suite) -> Sequence[str]:
    image = build_hookos(cache, suite, [build_action_image(cache, suite).digest])
    return [str(image.uki), *(f"allow {digest}" for digest in image.allow)]


def _alpine(cache: ImageCache, suite: Suite) -> Sequence[str]:
    image = build_alpine(cache, suite)
    return [str(image.path), f"{image.size} bytes, sha256 {image.sha256}"]


def _cloud_init(cache: ImageCache, suite: Suite) -> Sequence[str]:
    image = build_cloud_init(cache, suite)
    return [str(image.path), f"{image.size} bytes, sha256 {image.sha256}"]


def _debian(cache: ImageCache, suite: Suite) -> Sequence[str]:
    image = build_debian(cache, suite)
    return [str(image.path), f"{image.size} bytes, sha256 {image.sha256}"]


def _light(cache: ImageCache, _suite: Suite) -> Sequence[str]:
    image = build_light(cache)
    return [str(image.path), f"{image.size} bytes, sha256 {image.sha256}"]


BUILDS: dict[str, Build] = {
    "packages": _packages,
    "action": _action,
    "hookos": _hookos,
    "alpine": _alpine,
    "cloud-init": _cloud_init,
    "light": _light,
    "debian": _debian,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what is asked for (everything without a name); return 1 when a tool failed."""
    parser = argparse.ArgumentParser(prog="python -m fleet_lab.images", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BUILDS))
    names = parser.parse_args(arguments).names or list(BUILDS)
    unknown = [name for name in names if name not in BUILDS]
    if unknown:
        parser.error(f"there is no image {unknown[0]}; there are {', '.join(BUILDS)}")
    cache, suite = image_cache(), this_host_suite()
    for name in names:
        print(f"{name} …", end="", flush=True)
        begun = time.monotonic()
        try:
            told = BUILDS[name](cache, suite)
        except LabError as error:
            print(f" failed\n  {error}")
            return 1
        print(f" {time.monotonic() - begun:.1f} s", *told, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
