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
        from=${MIRROR_16:-}
        [ -n "$from" ] || die "set MIRROR_16 to the address of an Ubuntu mirror, KEYRING_16 to the file of its keys (package ubuntu-keyring)"
        options=(--keyring="${KEYRING_16:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}" --components=main,universe)
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
    # A shell of its own: "set -e" has no effect in a subshell whose status is tested.
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

[ $# -eq 1 ] || die "usage: ci/server.sh host|16|17|18|19|18-assert"
case $1 in
    host)
        if ! command -v "${PG_CONFIG:-pg_config}" >/dev/null || [ ! -e "$("${PG_CONFIG:-pg_config}" --pgxs)" ]; then
            packages postgresql-15 postgresql-server-dev-15
        fi
        packages make gcc libc6-dev libipc-run-perl perl
        ;;
    *-assert) make_assert "${1%-assert}" ;;
    *) make_root "$1" ;;
esac
