#!/usr/bin/env bash
# ci/package.sh deb [RELEASE...] | rpm | dist | image [RELEASE]: make packages and use them
# where nothing of pg_lean was installed; the packages are left in build/packages/.
#
#   deb     Debian packages of those releases (default: this machine's), one for each
#           extension and PostgreSQL that the release supports: built in a pristine root,
#           read by lintian, installed and used (debian/tests) in another one
#   rpm     RPM packages, one for each extension: built with rpm's tools of this release
#           for its PostgreSQL, installed by rpm in another root and used there.  That
#           PostgreSQL is no RPM, so dependencies are not resolved; they are read.
#   dist    the archive for PGXN, installed by pgxn's own client in a pristine root
#   image   the files of extension images for CloudNativePG, one for each extension, by the
#           steps of ci/extension.Dockerfile from the Debian packages of that release
#           (default: sid, which are built if they are not there), loaded through
#           extension_control_path and dynamic_library_path; needs PostgreSQL 18 or later
. "$(dirname "$0")/lib.sh"
. "$TOP/ci/pristine.sh"

OUT_PACKAGES=$OUT/packages
mkdir -p "$OUT_PACKAGES"
VERSION=$(sed -n 's/^  "version": "\(.*\)",/\1/p' "$TOP/META.json")
THIS_RELEASE=$(sed -n "s/^VERSION_CODENAME=//p" /etc/os-release)

# step LOG COMMAND...: run, and show the log if that fails
step() {
    local to=$1
    shift
    "$@" >"$to" 2>&1 || { tail -n 40 "$to" >&2; die "failed: $* (whole log: $to)"; }
}

deb() {
    local release_name=$1 name=pg-lean_$VERSION folder=$OUT_PACKAGES/deb-$1 place
    place=/home/ann/pg-lean-$VERSION
    say "building the Debian packages for $release_name"
    pristine "$release_name-build"
    installed build-essential debhelper postgresql-server-dev-all lintian
    ann
    clone ann "$place"
    # The maintainers have no public address yet, and no bug of Debian's asks for the
    # package: lintian's words on that.
    step "$log.build.log" inside ann "tar --exclude=./debian -cJf $name.orig.tar.xz -C $place . && cd $place &&
        pg_buildext updatecontrol && dpkg-buildpackage -us -uc && lintian --version && lintian --fail-on error,warning --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog,initial-upload-closes-no-bugs ../${name}*.changes"
    grep -E '^[EW]: ' "$log.build.log" >&2 || true
    as_root rm -rf "$folder"
    mkdir -p "$folder"
    as_root cp "$root"/home/ann/*.deb "$folder/"
    as_root rm -rf "$root"

    say "using the Debian packages on $release_name"
    pristine "$release_name-use"
    as_root mkdir "$root/packages"
    as_root cp -r "$folder/." "$root/packages/"
    as_root rm -f "$root"/packages/*-dbgsym_*
    as_root cp -r "$TOP/debian/tests" "$root/tests"
    installed "/packages/*.deb" postgresql-common
    step "$log.use.log" inside root "/tests/use"
    expect "no README was installed" as_root test -s "$(echo "$root"/usr/share/doc/postgresql-*-light-explain/README.md*)"
    removed "apt-get purge -y -qq postgresql-$(server_there)-DASHED"
    as_root rm -rf "$root"
    echo "Debian packages for $release_name: $(cd "$folder" && echo postgresql-*_"$VERSION"*.deb)"
}

# files_of EXTENSION: its library and scripts in the state's root.
files_of() { as_root find "$root/usr/lib/postgresql" "$root/usr/share/postgresql" -name "$1*"; }

# removed COMMAND: packages are removed one at a time, each with its files and no other's.
# EXTENSION in the command is replaced by the name, DASHED by the name in Debian's spelling.
removed() {
    local ext other command
    for ext in $EXTENSIONS; do
        command=${1//EXTENSION/$ext}
        step "$log.remove.log" inside root "${command//DASHED/${ext//_/-}}"
        expect "files of $ext are left" same "$(files_of "$ext")" ""
        for other in ${EXTENSIONS#*"$ext"}; do expect "files of $other were removed with $ext" test -n "$(files_of "$other")"; done
    done
}

# server_there: the version of the newest server in the state's root.
server_there() { inside root "ls /usr/lib/postgresql" | sort -n | tail -n 1; }

rpm_packages() {
    local name=pg_lean-$VERSION folder=$OUT_PACKAGES/rpm place major lists
    place=/home/ann/$name
    say "building the RPM packages"
    pristine "$THIS_RELEASE-rpmbuild"
    installed build-essential postgresql-server-dev-all rpm
    ann
    clone ann "$place"
    major=$(server_there)
    step "$log.build.log" inside ann "mkdir -p rpmbuild/SOURCES && tar -czf rpmbuild/SOURCES/$name.tar.gz -C /home/ann $name &&
        rpmbuild -ba --nodeps --define 'pgmajor $major' --define 'pg_config /usr/lib/postgresql/$major/bin/pg_config' $place/rpm/pg_lean.spec"
    as_root rm -rf "$folder"
    mkdir -p "$folder"
    as_root cp "$root"/home/ann/rpmbuild/RPMS/*/*.rpm "$root"/home/ann/rpmbuild/SRPMS/*.rpm "$folder/"
    as_root rm -rf "$root"

    say "using the RPM packages"
    pristine "$THIS_RELEASE-rpm"
    installed postgresql postgresql-common rpm
    as_root mkdir "$root/packages"
    as_root cp -r "$folder/." "$root/packages/"
    as_root rm -f "$root"/packages/*.src.rpm
    as_root cp -r "$TOP/debian/tests" "$root/tests"
    lists=$(inside root "for file in /packages/*.rpm; do echo \"\$file\"; rpm -qlp \$file; rpm -qp --requires \$file; done")
    printf '%s\n' "$lists" >"$log.lists.log"
    for ext in $EXTENSIONS; do
        expect "no package has the library $ext" same "$(grep -c "^/usr/lib/postgresql/$major/lib/$ext.so\$" "$log.lists.log")" 1
        expect "no package has the script of $ext" grep -qE "^/usr/share/postgresql/$major/extension/$ext--[0-9.]+sql\$" "$log.lists.log"
        expect "no package has the documents of $ext" grep -qE "^/usr/share/doc/${ext}_$major-[0-9.]+/README.md\$" "$log.lists.log"
    done
    expect "a package does not require the server" same "$(grep -cx "postgresql$major-server" "$log.lists.log")" "$(wc -w <<<"$EXTENSIONS")"
    step "$log.install.log" inside root "rpm -i --nodeps --force-debian /packages/*.rpm"
    step "$log.use.log" inside root "/tests/use"
    step "$log.verify.log" inside root "rpm -V --nodeps $(for ext in $EXTENSIONS; do echo "${ext}_$major"; done | xargs)"
    removed "rpm -e --force-debian EXTENSION_$major"
    as_root rm -rf "$root"
    echo "RPM packages: $(cd "$folder" && echo *.rpm)"
}

dist() {
    local zip=$OUT_PACKAGES/pg_lean-$VERSION.zip place=/tmp/pg_lean-$VERSION.zip
    packages git zip
    rm -f "$zip"
    (cd "$TOP" && git archive --format=zip --prefix="pg_lean-$VERSION/" -o "$zip" HEAD)
    say "installing the archive for PGXN"
    pristine "$THIS_RELEASE-pgxn"
    installed postgresql-server-dev-all postgresql gcc libc6-dev pgxnclient
    as_root cp "$zip" "$root$place"
    step "$log.install.log" inside root "pgxn install $place"
    as_root cp -r "$TOP/debian/tests" "$root/tests"
    step "$log.use.log" inside root "/tests/use"
    as_root rm -rf "$root"
    echo "archive for PGXN: ${zip##*/}"
}

# image_of EXTENSION MAJOR PACKAGES TO: the files of its image, by the steps of ci/extension.Dockerfile.
image_of() {
    local EXTENSION=$1 PG_MAJOR=$2 PACKAGE=postgresql-$2-${1//_/-} word rest from to unpacked=$4.unpacked
    rm -rf "$4" "$unpacked"
    mkdir -p "$4" "$unpacked"
    while read -r word rest; do
        # the only variables of the file are those above
        rest=${rest//'${EXTENSION}'/$EXTENSION}
        rest=${rest//'${PG_MAJOR}'/$PG_MAJOR}
        rest=${rest//'${PACKAGE}'/$PACKAGE}
        from=${rest% *}
        to=${rest##* }
        case "$word $rest" in
            "ARG "* | "FROM "* | "LABEL "* | "USER "* | "# "* | " ") ;;
            "RUN dpkg -x "*) dpkg -x "$unpacked"/package/*.deb "$unpacked/unpacked" ;;
            "COPY --from=build "*) mkdir -p "$4$to" && cp -a "$unpacked"${from#--from=build } "$4$to" ;;
            "COPY "*) mkdir -p "$unpacked$to" && cp "$3"/$from "$unpacked$to" ;;
            *) die "unknown step: $word $rest" ;;
        esac
    done <"$TOP/ci/extension.Dockerfile"
    rm -rf "$unpacked"
}

image() {
    local release_name=$1 packages=$OUT_PACKAGES/deb-$1 major folder ext paths="" libraries=""
    compgen -G "$packages/postgresql-*.deb" >/dev/null || deb "$release_name"
    major=$(basename "$(printf '%s\n' "$packages"/postgresql-*.deb | sort -V | tail -n 1)" | cut -d- -f2)
    [ "$major" -ge 18 ] || die "extension images need PostgreSQL 18"
    folder=$OUT_PACKAGES/image-$major
    say "laying out the extension images for PostgreSQL $major"
    as_root rm -rf "$folder"
    for ext in $EXTENSIONS; do
        image_of "$ext" "$major" "$packages" "$folder/$ext"
        expect "files of $ext's image" same "$(cd "$folder/$ext" && find . -type f -not -name '*.sql' | sort | xargs)" \
            "./lib/$ext.so ./licenses/postgresql-$major-${ext//_/-}/copyright ./share/extension/$ext.control$([ "$ext" != appendable_bytea ] || echo " ./share/extension/${ext}_plpython3u.control")"
        paths="$paths/extensions/$ext/share:"
        libraries="$libraries/extensions/$ext/lib:"
    done
    say "using the extension images"
    pristine "$release_name-image"
    installed "postgresql-$major"
    as_root mkdir "$root/extensions"
    as_root cp -a "$folder/." "$root/extensions/"
    # Loaded from there: nothing of pg_lean is in the server's folders.
    step "$log.use.log" inside postgres "
        PATH=/usr/lib/postgresql/$major/bin:\$PATH
        initdb -D /tmp/used -A trust --no-sync
        printf '%s\n' \"listen_addresses = ''\" \"unix_socket_directories = '/tmp'\" \
            \"extension_control_path = '$paths\\\$system'\" \"dynamic_library_path = '$libraries\\\$libdir'\" \
            \"shared_preload_libraries = '${EXTENSIONS// /,}'\" >>/tmp/used/postgresql.conf
        pg_ctl -D /tmp/used -l /tmp/log -w start || { cat /tmp/log; exit 1; }
        set -e
        for ext in $EXTENSIONS; do
            psql -X -h /tmp -v ON_ERROR_STOP=1 -qc \"CREATE EXTENSION \$ext\"
            psql -X -h /tmp -Atc \"SELECT pg_read_file('/proc/self/maps')\" | grep -q /extensions/\$ext/lib/\$ext.so
            psql -X -h /tmp -Atc \"SELECT module_name || version FROM pg_get_loaded_modules()\" | grep -qx \${ext}$VERSION
        done
        psql -X -h /tmp -v ON_ERROR_STOP=1 -c 'CREATE TABLE t (data appendable_bytea); INSERT INTO t VALUES (repeat(chr(120), 100000)::bytea)' \
            -c 'UPDATE t SET data = data || data' -c 'SELECT 1 / (length(data) = 200000)::int FROM t' -c 'EXPLAIN (ANALYZE, LIGHT) SELECT count(*) FROM t'
        pg_ctl -D /tmp/used -m fast stop"
    as_root rm -rf "$root"
    echo "extension images for PostgreSQL $major: $(cd "$folder" && echo *)"
}

case ${1:-} in
    deb)
        shift
        [ $# -gt 0 ] || set -- "$THIS_RELEASE"
        for name in "$@"; do deb "$name"; done
        ;;
    rpm) rpm_packages ;;
    dist) dist ;;
    image) image "${2:-sid}" ;;
    *) die "usage: ci/package.sh deb [RELEASE...] | rpm | dist | image [RELEASE]" ;;
esac
