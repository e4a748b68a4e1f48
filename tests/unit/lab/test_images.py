"""How the lab's images are written: archives, measurements, selections, caches."""

import hashlib
import io
import struct
import subprocess
import tarfile

import pytest
import zstandard

from fleet_lab.images.authenticode import authenticode_sha256
from fleet_lab.images.cache import ImageCache, content_key
from fleet_lab.images.disk import DiskImage, RootFileSystem, write_image
from fleet_lab.images.filetree import Device, File, Folder, Link, with_parents, write_cpio, write_tar
from fleet_lab.images.kernel import load_order
from fleet_lab.images.oci import Layer, archive_digest, write_archive
from fleet_lab.images.packages import host_suite
from fleet_lab.images.selection import merged
from fleet_machine.disk.partitions import partitions_of, root_partition
from fleet_machine.disk.source import Disk
from fleet_machine.disk.volumes import ToolVolumes

TREE = (
    File("etc/init", b"#!/bin/sh\n", 0o755),
    Link("bin", "usr/bin"),
    Device("dev/console", 5, 1),
    Folder("tmp", 0o1777),
)


def test_missing_folders_come_before_what_is_in_them():
    paths = [node.path for node in with_parents([File("a/b/c", b"")])]

    assert paths == ["a", "a/b", "a/b/c"]


def test_the_last_of_two_nodes_with_one_path_wins():
    assert with_parents([File("a", b"1"), File("a", b"2")]) == (File("a", b"2"),)


def test_a_file_below_a_link_is_refused():
    with pytest.raises(ValueError, match="below bin"):
        with_parents([Link("bin", "usr/bin"), File("bin/sh", b"")])


def test_busybox_reads_the_cpio_as_it_was_meant(tmp_path):
    out = io.BytesIO()
    write_cpio(TREE, out)
    listed = subprocess.run(
        ["busybox", "cpio", "-tv"], input=out.getvalue(), capture_output=True, check=True
    ).stdout.decode()

    assert "-rwxr-xr-x" in listed
    assert "etc/init" in listed
    assert "bin -> usr/bin" in listed
    assert "drwxrwxrwt" in listed


def test_a_tar_holds_every_node_as_root():
    out = io.BytesIO()
    write_tar(TREE, out)
    out.seek(0)
    with tarfile.open(fileobj=out) as archive:
        members = {member.name: member for member in archive}

    assert {member.uid for member in members.values()} == {0}
    assert members["etc/init"].mode == 0o755
    assert members["bin"].linkname == "usr/bin"
    assert (members["dev/console"].devmajor, members["dev/console"].devminor) == (5, 1)


def test_the_same_tree_gives_the_same_bytes():
    first, second = io.BytesIO(), io.BytesIO()
    write_cpio(TREE, first)
    write_cpio(reversed(TREE), second)

    assert first.getvalue() == second.getvalue()


def test_a_root_file_system_is_its_nodes_over_an_archive(tmp_path):
    under = tmp_path / "under.tar"
    with under.open("wb") as file:
        write_tar((File("etc/init", b"old"), File("etc/kept", b"kept", 0o600)), file)
    root = RootFileSystem(TREE, "root", "1f0c2a77-51a3-4a52-9bb3-6f6f2f1d9c11", spare=12 << 20, archive=under)

    write_image(tmp_path / "out", root, None, "6E1B1A4C-3C1D-4D6A-8F5B-0A1E00000010")

    raw = tmp_path / "raw"
    with DiskImage.load(tmp_path / "out").path.open("rb") as packed, raw.open("wb") as sink:
        zstandard.ZstdDecompressor().copy_stream(packed, sink)
    disk = Disk("vda", "s", "", "", raw.stat().st_size, 512, raw)
    partition = root_partition(partitions_of(disk))
    assert ToolVolumes().read(disk, partition, "etc/kept") == b"kept"
    assert (
        ToolVolumes().read(disk, partition, "etc/init") == next(node for node in TREE if node.path == "etc/init").read()
    )
    assert not ToolVolumes().holds(disk, partition, "dev/console")


def test_modules_load_after_what_they_need():
    depends = {"net": ("ring", "failover"), "failover": ("base",), "ring": (), "base": ()}

    order = load_order(["net", "ring"], depends)

    assert order.index("base") < order.index("failover") < order.index("net")
    assert sorted(order) == sorted(depends)


def test_an_entry_is_built_once(tmp_path):
    built = []

    def build(path):
        built.append(path)
        path.write_text("content")

    cache = ImageCache(tmp_path)
    first = cache.get("thing", content_key("1"), build)
    again = cache.get("thing", content_key("1"), build)

    assert first == again
    assert len(built) == 1
    assert first.read_text() == "content"


def test_a_build_that_failed_leaves_no_entry(tmp_path):
    cache = ImageCache(tmp_path)

    def fail(path):
        path.write_text("half")
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        cache.get("thing", content_key("1"), fail)

    assert [path.name for path in tmp_path.iterdir()] == [".thing.lock"]


def test_the_cache_keeps_the_newest_entries_of_a_name_only(tmp_path):
    cache = ImageCache(tmp_path)
    for number in range(5):
        cache.get("thing", content_key(str(number)), lambda path: path.write_text(""))
    cache.get("thing-other", content_key("1"), lambda path: path.write_text(""))

    assert len(list(tmp_path.glob("thing-" + "?" * 32))) == 3
    assert len(list(tmp_path.glob("thing-other-*"))) == 1


def test_keys_of_different_lists_differ():
    assert content_key("ab", "c") != content_key("a", "bc")


def a_pe_image(checksum=0, certificates=b"", payload=b"code" * 8):
    """A PE32+ image with one section and, when given, a certificate table behind it."""
    size_of_headers = 0x200
    table = (size_of_headers + len(payload), len(certificates)) if certificates else (0, 0)
    optional = struct.pack("<H58xII44x", 0x20B, size_of_headers, checksum)
    optional += b"".join(struct.pack("<II", *(table if index == 4 else (0, 0))) for index in range(16))
    head = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x40) + b"PE\0\0"
    head += struct.pack("<HH12xHH", 0x8664, 1, len(optional), 0) + optional
    head += struct.pack("<8sIIII16x", b".text", len(payload), 0x1000, len(payload), size_of_headers)
    return head.ljust(size_of_headers, b"\0") + payload + certificates


def test_the_authenticode_digest_leaves_out_checksum_and_signature():
    plain = authenticode_sha256(a_pe_image())

    assert authenticode_sha256(a_pe_image(checksum=7)) == plain
    assert authenticode_sha256(a_pe_image(certificates=b"signature")) == plain
    assert authenticode_sha256(a_pe_image(payload=b"else" * 8)) != plain


def test_the_authenticode_digest_covers_headers_and_sections_in_order():
    image = a_pe_image()
    checksum, security = 0x58 + 64, 0x58 + 112 + 32
    expected = image[:checksum] + image[checksum + 4 : security] + image[security + 8 :]

    assert authenticode_sha256(image) == hashlib.sha256(expected).hexdigest()


def test_what_is_no_pe_image_is_refused():
    with pytest.raises(ValueError, match="MZ"):
        authenticode_sha256(b"\x7fELF")


def test_an_archive_names_its_manifest(tmp_path):
    layer = tmp_path / "layer.tar"
    with layer.open("wb") as file:
        write_tar(TREE, file)

    digest = write_archive(tmp_path / "image.tar", "name", [Layer.of(layer)], {"Entrypoint": ["/etc/init"]})

    assert archive_digest(tmp_path / "image.tar") == digest
    with tarfile.open(tmp_path / "image.tar") as archive:
        manifest = archive.extractfile("blobs/sha256/" + digest.removeprefix("sha256:")).read()
    assert hashlib.sha256(manifest).hexdigest() == digest.removeprefix("sha256:")


@pytest.mark.parametrize(
    ("text", "name"),
    [('VERSION_CODENAME="trixie"', "trixie"), ("VERSION_CODENAME=bookworm", "bookworm"), ("", "bookworm")],
)
def test_images_are_made_from_the_release_of_the_host(text, name):
    assert host_suite(f"ID=x\n{text}\n").name == name


@pytest.mark.parametrize(
    ("path", "expected"), [("bin/sh", "usr/bin/sh"), ("usr/bin/sh", "usr/bin/sh"), ("etc/x", "etc/x")]
)
def test_paths_come_out_below_usr(path, expected):
    assert merged(path) == expected
