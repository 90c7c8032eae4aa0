#!/usr/bin/env bash
# ci/source.sh MAJOR: unpack Debian's source package of that PostgreSQL below
# build/source and print the folder.  Uses an apt state of its own: the machine's
# source lists stay as they are.
. "$(dirname "$0")/lib.sh"

[ $# -eq 1 ] || die "usage: ci/source.sh MAJOR"
major=$1
target=$BUILD/source/$major
if [ ! -e "$target/.ready" ]; then
    packages dpkg-dev bzip2 xz-utils
    state=$BUILD/apt-$major
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$BUILD/source"
    if [ "$major" = 16 ]; then
        from=$(ubuntu_mirror)
        printf 'deb-src [signed-by=%s] %s %s main\n' "$KEYRING_16" "$from" noble "$KEYRING_16" "$from" noble-updates >"$state/sources.list"
    else
        echo "deb-src $(mirror) $(release_of "$major") main" >"$state/sources.list"
    fi
    options=(-o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache" -o "Dir::Etc::sourcelist=$state/sources.list"
        -o Dir::Etc::sourceparts=- -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User= -o Acquire::Retries=3)
    say "fetching the source package of PostgreSQL $major"
    apt-get "${options[@]}" update -qq >&2
    (cd "$state" && apt-get "${options[@]}" source -qq --download-only "postgresql-$major" >&2)
    rm -rf "$target"
    dpkg-source --no-check -x "$state"/postgresql-"$major"_*.dsc "$target" >&2
    touch "$target/.ready"
fi
echo "$target"
