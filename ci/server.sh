#!/usr/bin/env bash
# ci/server.sh LABEL: make the server of that label ready (see ci/lib.sh); quick
# when it already is.
. "$(dirname "$0")/lib.sh"

TOOLS="make gcc libc6-dev"

# A debootstrap root with packages of one major version.
make_root() {
    local major=$1 root release suite from options=() script=()
    root=$(root_of "$major")
    [ -e "$root/.ready" ] && return 0
    packages debootstrap
    release=$(release_of "$major")
    suite=$release
    [ "$release" = experimental ] && suite=sid
    [ "$suite" = sid ] && script=(/usr/share/debootstrap/scripts/sid)
    from=$(mirror)
    if [ "$suite" = noble ]; then
        from=$(ubuntu_mirror)
        options=(--keyring="$KEYRING_16" "--components=main,universe")
        # what all its releases share
        script=(/usr/share/debootstrap/scripts/gutsy)
    fi
    say "making a $suite root for PostgreSQL $major"
    as_root rm -rf "$root"
    mkdir -p "$(dirname "$root")"
    as_root debootstrap --variant=minbase "${options[@]}" "$suite" "$root" "$from" "${script[@]}" >"$BUILD/root-$major.log" 2>&1 ||
        { tail -n 20 "$BUILD/root-$major.log" >&2; die "debootstrap $suite failed"; }
    if [ "$release" = experimental ]; then
        # Only PostgreSQL itself from experimental: its perl is newer than the modules.
        echo "deb $(mirror) experimental main" | as_root tee -a "$root/etc/apt/sources.list" >/dev/null
        printf 'Package: postgresql* libpq* libecpg* libpgtypes*\nPin: release a=experimental\nPin-Priority: 990\n' |
            as_root tee "$root/etc/apt/preferences.d/postgresql" >/dev/null
    fi
    # Ubuntu releases keep the minor release that they began with.
    [ "$suite" != noble ] || echo "deb $from $suite-updates main universe" | as_root tee -a "$root/etc/apt/sources.list" >/dev/null
    in_root "$major" root "
        apt-get -qq -o Acquire::Check-Valid-Until=false update
        apt-get install -y -qq --no-install-recommends postgresql-$major postgresql-server-dev-$major $TOOLS libipc-run-perl" \
        >>"$BUILD/root-$major.log" 2>&1 ||
        { tail -n 20 "$BUILD/root-$major.log" >&2; die "installing PostgreSQL $major in its root failed"; }
    as_root touch "$root/.ready"
}

# A server with assertions, built outside any root from Debian's source package.
make_assert() {
    local major=$1 prefix source
    prefix=$BUILD/server/$major-assert
    [ -e "$prefix/.ready" ] && [ -e "$prefix/lib/pgsql" ] && return 0
    packages build-essential bison flex perl libreadline-dev zlib1g-dev liblz4-dev libipc-run-perl
    source=$("$TOP/ci/source.sh" "$major")
    say "building an assertion-enabled PostgreSQL $major"
    rm -rf "$prefix" "$BUILD/source/$major-assert"
    cp -a "$source" "$BUILD/source/$major-assert"
    # Debian's source puts modules into the system's /usr/lib/postgresql, whatever the
    # prefix, unless the name of libdir speaks of PostgreSQL.
    #
    # A separate shell: "set -e" has no effect in a subshell whose status is tested.
    bash -euc '
        cd "$1"
        ./configure -q --prefix="$2" --libdir="$2/lib/pgsql" --enable-cassert --enable-debug --enable-tap-tests --without-icu --with-lz4 \
            CFLAGS="-O1 -ggdb -fno-omit-frame-pointer"
        # "install" alone does not wait for generated headers when run in parallel
        make -s -j"$(nproc)"
        make -s -j"$(nproc)" -C contrib
        make -s install
        make -s -C contrib install
        make -s -C src/test/regress install
        make -s -C src/test/isolation install
    ' assert "$BUILD/source/$major-assert" "$prefix" >"$BUILD/server-$major-assert.log" 2>&1 ||
        { tail -n 20 "$BUILD/server-$major-assert.log" >&2; die "building PostgreSQL $major failed"; }
    rm -rf "$BUILD/source/$major-assert"
    touch "$prefix/.ready"
}

# offered_server: the packages of the server that this machine's release provides.
offered_server() {
    local major
    command -v apt-cache >/dev/null || die "no PostgreSQL here: install version 15 to 19 with its headers and set PG_CONFIG"
    major=$(apt-cache show --no-all-versions postgresql 2>/dev/null | sed -n 's/^Depends:.*postgresql-\([0-9]*\).*/\1/p' | head -n 1)
    if [ -n "$major" ] && [ "$major" -ge 15 ] && [ "$major" -le 19 ]; then
        echo "postgresql-$major postgresql-server-dev-$major"
    elif [ -n "$major" ]; then
        die "this release offers PostgreSQL $major; install 15 to 19 (the PostgreSQL project has packages for it) and set PG_CONFIG"
    else
        # who has not read the lists leaves the version to two packages that know it
        echo "postgresql postgresql-server-dev-all"
    fi
}

# minor_of PG_CONFIG server|headers: 15.20; nothing if there are none.
minor_of() {
    case $2 in
        server) "$("$1" --bindir)/postgres" -V | awk '{ print $3 }' ;;
        headers)
            local include
            include=$("$1" --includedir-server)
            [ ! -e "$include/postgres.h" ] || sed -n 's/^#define PG_VERSION "\([^ "]*\).*/\1/p' "$include/pg_config.h" ;;
    esac
}

# The server and its headers must be of one minor release: structures change between them.
headers_match() { [ "$(minor_of "$1" server)" = "$(minor_of "$1" headers)" ]; }

# header_packages PG_CONFIG: what to install so that they match.
header_packages() {
    local server headers major version p
    server=$(minor_of "$1" server)
    headers=$(minor_of "$1" headers)
    major=$(major_of "$1")
    version=$(dpkg-query -W -f='${Version}' "postgresql-$major" 2>/dev/null || true)
    if [ "$("$1" --bindir)" != "/usr/lib/postgresql/$major/bin" ] || [ -z "$version" ]; then
        die "$1: the server is $server, its headers are ${headers:-missing}: install the headers of $server, or set PG_CONFIG"
    fi
    if apt-cache madison "postgresql-server-dev-$major" | awk -F'|' '{ gsub(" ", "", $2); print $2 }' | grep -qxF "$version"; then
        echo "postgresql-server-dev-$major=$version"
        return
    fi
    # The headers of an older minor release are no longer offered: the server follows.
    version=$(apt-cache policy "postgresql-server-dev-$major" | awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }')
    [ -n "$version" ] || { echo "postgresql-server-dev-$major"; return; }
    say "PostgreSQL $server is older than the headers on offer: server and headers become $version"
    for p in postgresql postgresql-client postgresql-server-dev; do echo "$p-$major=$version"; done
}

# setup_host: what this machine needs for both commands of the README, asked for in
# one go.
setup_host() {
    local pg_config server=
    pg_config=$(host_pg_config) || pg_config=
    if [ -z "$pg_config" ]; then
        [ -z "${PG_CONFIG:-}" ] || exit 1
        read_package_lists
        server=$(offered_server)
    elif [ ! -x "$("$pg_config" --bindir)/postgres" ]; then
        die "$pg_config: no server in $("$pg_config" --bindir)"
    elif ! headers_match "$pg_config"; then
        read_package_lists
        server=$(header_packages "$pg_config")
    fi
    find_python >/dev/null || server="$server python3 python3-venv"
    # shellcheck disable=SC2086
    packages $server $TOOLS libipc-run-perl perl
    pg_config=$(host_pg_config) || die "no PostgreSQL 15 to 19 here: install one with its headers and set PG_CONFIG"
    headers_match "$pg_config" || die "$pg_config: the server is $(minor_of "$pg_config" server), its headers are $(minor_of "$pg_config" headers)"
    if may_install "$pg_config" || can_root; then rm -rf "$PRIVATE"; else private_copy "$pg_config"; fi
}

# announce: the first line of make demo: what it is about to install or change.  Nothing
# is asked of apt yet, so the server's package is named without its version.
announce() {
    local pg_config missing=() changes
    pg_config=$(host_pg_config) || pg_config=
    if [ -z "$pg_config" ]; then missing=(postgresql and its headers)
    elif ! headers_match "$pg_config"; then missing=("headers of PostgreSQL $(minor_of "$pg_config" server)"); fi
    # shellcheck disable=SC2086
    command -v dpkg-query >/dev/null && mapfile -t -O "${#missing[@]}" missing < <(not_installed $TOOLS libipc-run-perl perl)
    find_python >/dev/null || missing+=(python3 python3-venv)
    if [ -n "$pg_config" ] && ! may_install "$pg_config" && ! can_root; then changes="installs pg_lean's files into a copy of the server below build/"
    else changes="installs pg_lean's files into the server's folders${pg_config:+ ($("$pg_config" --pkglibdir))}, not into a running server's databases"; fi
    [ ${#missing[@]} = 0 ] || changes="installs packages (${missing[*]}), $changes"
    say "make demo $changes, and measures on a temporary server; all else is written below build/"
}

# private_copy PG_CONFIG: Debian's server can be run from another place.
private_copy() {
    local major
    major=$(major_of "$1")
    [ "$("$1" --bindir)" = "/usr/lib/postgresql/$major/bin" ] ||
        die "$("$1" --pkglibdir) belongs to another user: set PG_CONFIG to a server of yours, or install as root"
    if [ "$(cat "$PRIVATE/.copy_of" 2>/dev/null)" = "$1" ] && cmp -s "$("$1" --bindir)/postgres" "$PRIVATE/lib/postgresql/$major/bin/postgres"; then return; fi
    say "copying PostgreSQL $major to $PRIVATE (its own folders belong to root)"
    rm -rf "$PRIVATE"
    mkdir -p "$PRIVATE/lib/postgresql" "$PRIVATE/share/postgresql"
    cp -a "/usr/lib/postgresql/$major" "$PRIVATE/lib/postgresql/"
    cp -a "/usr/share/postgresql/$major" "$PRIVATE/share/postgresql/"
    ln -s /usr/include "$PRIVATE/include"
    echo "$1" >"$PRIVATE/.copy_of"
}

[ $# -eq 1 ] || die "usage: ci/server.sh announce|host|15|16|17|18|19|18-assert"
case $1 in
    announce) announce ;;
    announce-dsn) say "make demo creates temporary tables and a schema on your server, which it drops; all else is written below build/" ;;
    host) setup_host ;;
    *-assert) make_assert "${1%-assert}" ;;
    *) make_root "$1" ;;
esac
