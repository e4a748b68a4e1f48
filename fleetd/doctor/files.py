"""What the owner provides: classes, templates, secrets, roots of TPM manufacturers, images."""

import requests

from fleetd.class_file import read_classes
from fleetd.config import Settings, secret_problems
from fleetd.core.classes import ClassBook, ClassesInvalidError, Image, MachineClass
from fleetd.core.names import Family
from fleetd.doctor.notes import Note, Notes, broken, good, warns
from fleetd.ek_roots import load_roots
from fleetd.ports import RefusedError
from fleetd.seeds.rendering import SeedRenderer
from fleetd.tinkerbell.templates import read_template

_WAIT = 5.0


def secrets(settings: Settings) -> Notes:
    """Name secret files that are missing or open to others."""
    for problem in secret_problems(settings):
        yield broken("secret files", problem, "Correct the file: regular, mode 0600, owned by root or fleetd's user.")


def classes(settings: Settings) -> Notes:
    """Read the classes, render what each needs, and ask for its image."""
    book = _book(settings)
    if isinstance(book, ClassesInvalidError):
        for error in book.errors:
            yield broken("classes", str(error), f"Correct {settings.paths.classes_file}; `fleetd classes check` tells.")
        return
    if not len(book):
        yield broken("classes", "none is declared", f"Declare one in {settings.paths.classes_file}.")
        return
    yield good("classes", ", ".join(sorted(each.slug for each in book)))
    renderer = SeedRenderer(settings.paths.templates, settings.paths.secrets)
    for each in book:
        if each.installable:
            yield from _class(settings, renderer, each)


def _book(settings: Settings) -> ClassBook | ClassesInvalidError:
    try:
        return read_classes(settings.paths.classes_file, settings.class_deadlines())
    except ClassesInvalidError as error:
        return error


def _class(settings: Settings, renderer: SeedRenderer, each: MachineClass) -> Notes:
    if problem := renderer.problem(each):
        yield broken(
            f"class {each.slug}",
            f"its seed cannot be rendered: {problem}",
            f"Put its template under {settings.paths.templates} and its secrets under {settings.paths.secrets}.",
        )
    if each.family is Family.TALOS and each.installable:
        yield _talos_trust(settings, f"class {each.slug}")
    if each.image is not None:
        yield from _image(each.slug, each.image)


def _talos_trust(settings: Settings, part: str) -> Note:
    """Say which way a Talos node comes to trust fleetd at its first boot, when it knows public authorities only."""
    if settings.machine.certificate is None:
        return warns(
            part,
            "Talos trusts public authorities at its first boot, and fleetd's certificate is by its own root",
            "Put the root into the image as a TrustedRootsConfig in talos.config.early (docs/how-to/talos.md), or set "
            "machine.certificate and machine.key to a certificate of a public authority.",
        )
    return good(part, "Talos nodes trust fleetd by machine.certificate, which must be of a public authority")


def _image(slug: str, image: Image) -> Notes:
    part = f"class {slug}"
    try:
        answer = requests.head(image.url, timeout=_WAIT, allow_redirects=True)
    except requests.RequestException as error:
        yield warns(
            part,
            f"its image cannot be reached from here ({type(error).__name__}): {image.url}",
            "Start the image server, or correct image.url. What counts is that machines reach it.",
        )
        return
    if not answer.ok:
        yield broken(
            part, f"the image server answers {answer.status_code} to {image.url}", "Upload it, or correct image.url."
        )


def workflows(settings: Settings) -> Notes:
    """Read the Templates that each family in use needs."""
    book = _book(settings)
    families = {each.family.value for each in book if each.installable} if isinstance(book, ClassBook) else set()
    names = ("attest", "wipe", *(f"provision-{family}" for family in sorted(families)))
    wrong = 0
    for name in names:
        try:
            read_template(settings.paths.workflows, name)
        except RefusedError as error:
            wrong += 1
            yield broken("workflows", str(error), f"Put the Templates of this version into {settings.paths.workflows}.")
    if not wrong:
        yield good("workflows", f"{len(names)} Templates are fit for use")


def roots(settings: Settings) -> Notes:
    """Count the roots of TPM manufacturers at hand."""
    store = load_roots(settings.paths.roots)
    if not store.trusted:
        yield broken(
            "ek roots",
            f"no root of a TPM manufacturer is in {settings.paths.roots}: no EK certificate can be trusted",
            "Download your manufacturers' CA certificates and run `fleetd ek-roots import FILES`.",
        )
    else:
        yield good("ek roots", f"{len(store.trusted)} trusted")
