"""What packagers read and give: META.json by the rules of PGXN's specification, the versions that several files repeat, the targets of PGXS."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pg_lean.cluster import Cluster
from pg_lean.paths import TOP

META = json.loads((TOP / "META.json").read_text())
SEMANTIC = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?")
#: Keys of a distribution's META.json: those that it must have, those that it may.
REQUIRED = {"abstract", "license", "maintainer", "meta-spec", "name", "provides", "version"}
OPTIONAL = {"description", "generated_by", "no_index", "prereqs", "release_status", "resources", "tags"}
LICENSES = {
    "agpl_3",
    "apache_2_0",
    "bsd",
    "freebsd",
    "gpl_2",
    "gpl_3",
    "mit",
    "mozilla_1_1",
    "open_source",
    "postgresql",
    "restricted",
    "unknown",
    "unrestricted",
}


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
    unshipped = re.search(r'^UNSHIPPED="(.*)"$', (TOP / "ci/lib.sh").read_text(), re.M)[1].split()
    assert {path.parent.name for path in TOP.glob("*/*.control")} == set(META["provides"]) | set(unshipped)
    assert not set(META["provides"]) & set(unshipped)


def test_programs_in_development_are_in_no_package():
    programs = re.search(r'^UNSHIPPED_PROGRAMS="(.*)"$', (TOP / "ci/lib.sh").read_text(), re.M)[1].split()
    assert programs and all("**In development, and in no package.**" in (TOP / name / "README.md").read_text() for name in programs)
    files = (TOP / name for name in ("rpm/pg_lean.spec", "Dockerfile", "ci/package.sh", "ci/install.sh"))
    packaging = [path for path in [*(TOP / "debian").rglob("*"), *files] if path.is_file()]
    assert not [path for path in packaging for name in programs if re.search(rf"\b{name}/", path.read_text())]


@pytest.mark.parametrize("name", META["provides"])
def test_what_meta_provides_is_there_in_that_version(name):
    provided = META["provides"][name]
    assert set(provided) == {"abstract", "docfile", "file", "version"} and SEMANTIC.fullmatch(provided["version"])
    default = re.search(r"default_version = '(.*)'", (TOP / name / f"{name}.control").read_text())[1]
    assert provided["version"].startswith(default + ".") and provided["file"] == f"{name}/sql/{name}--{default}.sql"
    assert (TOP / provided["file"]).is_file() and (TOP / provided["docfile"]).is_file()


def test_all_files_name_one_version():
    """ci/version.sh writes it into them."""
    version, short = META["version"], META["version"].rpartition(".")[0]
    assert f'PG_LEAN_VERSION "{META["version"]}"' in (TOP / "common/compat_module.h").read_text()
    assert (TOP / "debian/changelog").read_text().startswith(f"pg-lean ({META['version']}-")
    assert re.search(r"^Version: +(.*)$", (TOP / "rpm/pg_lean.spec").read_text(), re.M)[1] == version
    assert re.search(r"^%changelog\n\* .* - (.*)-1$", (TOP / "rpm/pg_lean.spec").read_text(), re.M)[1] == version
    assert f'\nversion = "{short}"\n' in (TOP / "lab/pyproject.toml").read_text() and f'"{short}"' in (TOP / "lab/pg_lean/__init__.py").read_text()
    assert re.search(r"^## (.*?)( |$)", (TOP / "CHANGELOG.md").read_text(), re.M)[1] == short
    for control in TOP.glob("*/*.control"):
        assert f"default_version = '{short}'" in control.read_text() and (control.parent / f"sql/{control.stem}--{short}.sql").is_file(), control


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
@pytest.mark.parametrize("released", [False, True])
def test_a_new_version_is_written_into_all_files(tmp_path, released):
    """In a copy of the repository: the tests of this file pass there, and a released version keeps its scripts."""
    copy = tmp_path / "copy"
    old, short = META["version"], META["version"].rpartition(".")[0]
    subprocess.run(["git", "clone", "-q", str(TOP), str(copy)], check=True)
    for path in ("ci/version.sh", "ci/lib.sh"):
        shutil.copy(TOP / path, copy / path)
    if released:
        subprocess.run(["git", "tag", f"v{old}"], cwd=copy, check=True)
    done = subprocess.run(["ci/version.sh", "7.8.9"], cwd=copy, capture_output=True, text=True, env={**os.environ, "PG_LEAN_BUILD": str(tmp_path / "build")})
    assert done.returncode == 0, done.stderr
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_packages.py", "-k", "version and not written"],
                          cwd=copy / "lab", capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(copy / "lab")})
    assert done.returncode == 0, done.stdout
    for control in copy.glob("*/*.control"):
        assert (control.parent / f"sql/{control.stem}--{short}.sql").exists() == released
    left = subprocess.run(["git", "grep", "-lE", "--", re.escape(f"--{short}.sql"), ":!results"], cwd=copy, capture_output=True, text=True).stdout.split()
    assert [name for name in left if not name.endswith(f"--{short}.sql")] == []
    assert ("(7.8.9-1)" in (copy / "debian/changelog").read_text()) and (f"({old}-1)" in (copy / "debian/changelog").read_text()) == released


def test_debian_makes_a_package_of_each_extension_and_server_that_is_there():
    """control is control.in for the versions of debian/pgversions; the build stops where it is not (pg_buildext checkcontrol)."""
    control, template = ((TOP / "debian" / name).read_text() for name in ("control", "control.in"))
    wanted = sorted(f"postgresql-PGVERSION-{name.replace('_', '-')}" for name in META["provides"])
    assert sorted(re.findall(r"^Package: (.*)$", template, re.M)) == wanted
    names = re.findall(r"^Package: (.*)$", control, re.M)
    assert names and sorted({re.sub(r"-1[5-9]-", "-PGVERSION-", name) for name in names}) == wanted and len(names) % len(wanted) == 0
    assert sorted(re.search(r"^EXTENSIONS = (.*)$", (TOP / "debian/rules").read_text(), re.M)[1].split()) == sorted(META["provides"])
    assert (TOP / "debian/source/format").read_text().strip() == "3.0 (quilt)"
    assert "use" in (TOP / "debian/tests/control").read_text() and (TOP / "debian/tests/use").stat().st_mode & 0o111


def test_the_rpm_spec_makes_a_package_of_each_extension():
    spec = (TOP / "rpm/pg_lean.spec").read_text()
    wanted = sorted(f"{name}_%{{pgmajor}}" for name in META["provides"])
    for section in ("package", "description", "files"):
        assert sorted(re.findall(rf"^%{section} -n (.*)$", spec, re.M)) == wanted, section
    assert spec.count("%license LICENSE\n") == spec.count("Requires:       %{pg_server}\n") == len(wanted)
    controls = [path.name for name in META["provides"] for path in (TOP / name).glob("*.control")]
    assert sorted(re.findall(r"^%\{scripts\}/(.*\.control)$", spec, re.M)) == sorted(controls)
    packed = [name for name in re.findall(r"^%doc (.*)$", spec, re.M) for name in name.split()]
    assert not [name for name in packed if not (TOP / name).exists()]


def test_an_extension_image_has_one_extension_its_license_and_labels():
    """The rules of CloudNativePG: lib/, share/extension/ and licenses/, nothing else, and no shell."""
    steps = (TOP / "ci/extension.Dockerfile").read_text().split("FROM scratch\n")[1]
    assert re.findall(r"^COPY --from=build \S+ (\S+)$", steps, re.M) == ["/licenses/${PACKAGE}/", "/lib/", "/share/extension/"]
    assert {"title", "description", "version", "licenses"} == set(re.findall(r"^LABEL org\.opencontainers\.image\.(\w+)=", steps, re.M))
    assert not re.search(r"^(RUN|CMD|ENTRYPOINT)", steps, re.M) and "\nUSER 65532:65532\n" in steps


# -- make ----------------------------------------------------------------------


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Run make in an empty folder, as for a build outside the source tree; returns its output."""
    bindir = Cluster().bindir
    if not (bindir / "pg_config").exists():
        pytest.skip("this server has no pg_config next to it")
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "CI", "WERROR", "DESTDIR", "VPATH"):
        monkeypatch.delenv(name, raising=False)

    def run(makefile, *arguments):
        folder = tmp_path / "elsewhere"
        folder.mkdir(exist_ok=True)
        done = subprocess.run(["make", "-f", str(TOP / makefile), f"PG_CONFIG={bindir / 'pg_config'}", *arguments], cwd=folder, capture_output=True, text=True,
                              env={**os.environ, "LC_ALL": "C"}, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
    return run


def test_warnings_are_errors_in_ci_alone():
    """Other compilers have warnings that were never seen here: make check must not fail because of them."""
    check = (TOP / "ci/check.sh").read_text()
    assert not re.search(r"(?<!\+ )WERROR=1", re.sub(r"#.*", "", check)) and "${WERROR:+ WERROR=1}" in check
    assert "WERROR=1" in (TOP / ".ci/run").read_text()


@pytest.mark.parametrize("target", ["all", "install", "installcheck", "uninstall", "clean"])
def test_the_top_has_the_targets_of_pgxs_and_asks_no_package_manager(make, target):
    commands = make("Makefile", "-n", target)
    assert set(re.findall(r"Entering directory '.*/elsewhere/(\w+)'", commands)) == set(META["provides"])
    assert not re.search(r"apt-get|sudo|ci/(server|install)\.sh|setpriv", commands)


#: clang, or the newest of those that are installed by their version alone.
CLANG = next((name for name in ("clang", *(f"clang-{version}" for version in range(30, 10, -1))) if shutil.which(name)), None)


@pytest.mark.skipif(CLANG is None, reason="no clang")
@pytest.mark.parametrize("name", META["provides"])
@pytest.mark.slow
def test_clang_builds_what_is_close_to_the_processor(make, tmp_path, name):
    """Counters, vectors and CPU features: there compilers differ, and in their warnings."""
    make(f"{name}/Makefile", "-B", f"CC={CLANG}", "WERROR=1", "all")
    assert (tmp_path / "elsewhere" / f"{name}.so").is_file()


def test_an_extension_is_built_installed_and_taken_out_elsewhere(make, tmp_path):
    def sources():
        return sorted(str(path) for path in (TOP / "ram_tablespace").rglob("*") if path.suffix in (".o", ".so") or path.name == "results")

    def installed():
        return {path.name for path in (tmp_path / "root").rglob("*") if path.is_file()}

    makefile, root, before = "ram_tablespace/Makefile", f"DESTDIR={tmp_path / 'root'}", sources()
    commands = make(makefile, "all")
    assert " -Wall" in commands and "-Werror " not in commands
    assert "-Werror " in make(makefile, "-n", "-B", "WERROR=1", "all")
    make(makefile, "install", root)
    assert {"ram_tablespace.so", "ram_tablespace.control", Path(META["provides"]["ram_tablespace"]["file"]).name} <= installed()
    make(makefile, "uninstall", root)
    assert not installed()
    assert sources() == before
