"""What packagers read: META.json by the rules of PGXN's specification, and the versions that several files repeat."""

import json
import re

import pytest

from pg_lean.paths import TOP

META = json.loads((TOP / "META.json").read_text())
SEMANTIC = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?")
#: Keys of a distribution's META.json: those that it must have, those that it may.
REQUIRED = {"abstract", "license", "maintainer", "meta-spec", "name", "provides", "version"}
OPTIONAL = {"description", "generated_by", "no_index", "prereqs", "release_status", "resources", "tags"}
LICENSES = {"agpl_3", "apache_2_0", "bsd", "freebsd", "gpl_2", "gpl_3", "mit", "mozilla_1_1", "open_source", "postgresql", "restricted", "unknown", "unrestricted"}


def test_meta_is_valid():
    assert REQUIRED <= set(META) <= REQUIRED | OPTIONAL
    assert re.fullmatch(r"[^\s/\\\x00-\x1f]{2,}", META["name"]) and META["name"] == META["name"].lower()
    assert SEMANTIC.fullmatch(META["version"]) and META["license"] in LICENSES and META["release_status"] in ("stable", "testing", "unstable")
    assert META["meta-spec"]["version"] == "1.0.0" and all(META["maintainer"]) and len(META["abstract"]) <= 256
    assert all(isinstance(tag, str) and 0 < len(tag) <= 255 and not re.search(r"[/\\\x00-\x1f]", tag) for tag in META["tags"])
    for phase, relations in META["prereqs"].items():
        assert phase in ("configure", "build", "test", "runtime", "develop")
        for relation, wanted in relations.items():
            assert relation in ("requires", "recommends", "suggests", "conflicts") and all(SEMANTIC.fullmatch(version) for version in wanted.values())


def test_no_address_is_made_up():
    """The project has no public address yet: a home page or a tracker stands nowhere before it is there."""
    assert "resources" not in META
    assert not re.search(r"^(Homepage|Vcs-\w+|Bugs):", (TOP / "debian/control.in").read_text(), re.M)


def test_meta_provides_each_extension_of_the_repository():
    assert {path.parent.name for path in TOP.glob("*/*.control")} == set(META["provides"])


@pytest.mark.parametrize("name", META["provides"])
def test_what_meta_provides_is_there_in_that_version(name):
    provided = META["provides"][name]
    assert set(provided) == {"abstract", "docfile", "file", "version"} and SEMANTIC.fullmatch(provided["version"])
    default = re.search(r"default_version = '(.*)'", (TOP / name / f"{name}.control").read_text())[1]
    assert provided["version"].startswith(default + ".") and provided["file"] == f"{name}/sql/{name}--{default}.sql"
    assert (TOP / provided["file"]).is_file() and (TOP / provided["docfile"]).is_file()


def test_all_files_name_one_version():
    assert f'PG_LEAN_VERSION "{META["version"]}"' in (TOP / "common/compat_module.h").read_text()
    assert (TOP / "debian/changelog").read_text().startswith(f"pg-lean ({META['version']}-")


def test_debian_makes_a_package_of_each_server_that_is_there():
    """control is control.in for the versions of debian/pgversions; the build stops where it is not (pg_buildext checkcontrol)."""
    control, template = ((TOP / "debian" / name).read_text() for name in ("control", "control.in"))
    names = re.findall(r"^Package: (.*)$", control, re.M)
    assert names and all(re.fullmatch(r"postgresql-1[5-9]-pg-lean", name) for name in names)
    assert re.findall(r"^Package: (.*)$", template, re.M) == ["postgresql-PGVERSION-pg-lean"]
    assert (TOP / "debian/source/format").read_text().strip() == "3.0 (quilt)"
    assert "use" in (TOP / "debian/tests/control").read_text() and (TOP / "debian/tests/use").stat().st_mode & 0o111
