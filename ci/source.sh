#!/usr/bin/env bash
# ci/source.sh MAJOR [PACKAGE]: unpack Debian's source package of that PostgreSQL, or of
# another package in the release that has it, below build/source and print the folder.
# Uses a separate apt state: the machine's source lists stay as they are.
. "$(dirname "$0")/lib.sh"

[ $# -eq 1 ] || [ $# -eq 2 ] || die "usage: ci/source.sh MAJOR [PACKAGE]"
major=$1
package=${2:-postgresql-$major}
target=$BUILD/source/$major
# earlier_minor: the source of one of the two minor releases before the one that is listed.
# A mirror can have the lists and the programs of a new one, and not yet its source; the
# suite of the one before serves as well, because two runs of it are compared.
earlier_minor() {
    local uris uri listed minor
    uris=$(apt-get "${options[@]}" source -qq --print-uris "$package" | sed -n "s/^'\([^']*\)'.*/\1/p")
    listed=$(sed -nE "s,.*/${package}_$major\.([0-9]+)\.orig\..*,\1,p" <<<"$uris")
    [ -n "$listed" ] || return 1
    for minor in $((listed - 1)) $((listed - 2)); do
        say "the source of $major.$listed is listed and cannot be fetched: trying $major.$minor"
        rm -f "$state"/fetched/*
        for uri in ${uris//_$major.$listed/_$major.$minor}; do
            /usr/lib/apt/apt-helper "${options[@]}" download-file "$uri" "$state/fetched/$(basename "${uri//%2b/+}")" >&2 || continue 2
        done
        return 0
    done
    return 1
}
[ $# -eq 1 ] || target=$BUILD/source/$package-for-$major
if [ ! -e "$target/.ready" ]; then
    packages dpkg-dev bzip2 xz-utils
    state=$BUILD/apt-$major
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$BUILD/source"
    if [ "$major" = 16 ]; then
        from=$(ubuntu_mirror)
        printf 'deb-src [signed-by=%s] %s %s main universe\n' "$KEYRING_16" "$from" noble "$KEYRING_16" "$from" noble-updates >"$state/sources.list"
    else
        echo "deb-src $(mirror) $(release_of "$major") main" >"$state/sources.list"
    fi
    options=(-o "Dir::State::lists=$state/lists" -o "Dir::Cache=$state/cache" -o "Dir::Etc::sourcelist=$state/sources.list"
        -o Dir::Etc::sourceparts=- -o Acquire::Check-Valid-Until=false -o APT::Sandbox::User= -o Acquire::Retries=3)
    # which of a release's packages are wanted next is found in the lists of an hour ago too
    if [ -z "$(find "$state/.updated" -mmin -60 2>/dev/null)" ]; then
        say "reading the source packages of the release of PostgreSQL $major"
        apt-get "${options[@]}" update -qq >&2
        touch "$state/.updated"
    fi
    say "fetching the source package of $package"
    rm -rf "$state/fetched"
    mkdir -p "$state/fetched"
    (cd "$state/fetched" && apt-get "${options[@]}" source -qq --download-only "$package" >&2) ||
        { [ $# -eq 1 ] && earlier_minor; } || die "no source of $package can be fetched"
    rm -rf "$target"
    dpkg-source --no-check -x "$state"/fetched/*.dsc "$target" >&2
    rm -rf "$state/fetched"
    touch "$target/.ready"
fi
echo "$target"
