#!/usr/bin/env bash
# ci/minors.sh: what is built for one minor release runs on another: for each two that this
# machine's package lists offer of its PostgreSQL's major version, built with the headers of one and tested
# (pg_regress and the isolation tester) on the server of the other, both ways.  Debian's
# packages are unpacked below build/, not installed.
#
# PostgreSQL keeps what libraries call from one minor release to the next, so what was built
# for the older one must pass on the newer.  The other way it promises nothing (inline functions
# of 15.20's headers call one that 15.18's server does not have): that is shown, and fails nothing.
. "$(dirname "$0")/lib.sh"

"$TOP/ci/server.sh" host
major=$(major_of "$(pg_config_of host)")
read_package_lists
mapfile -t versions < <(apt-cache madison "postgresql-$major" | awk -F'|' '{ gsub(" ", "", $2); print $2 }' | sort -uV)
[ ${#versions[@]} -ge 2 ] || die "only one minor release of PostgreSQL $major is offered: ${versions[*]}"
# the oldest and the newest
versions=("${versions[0]}" "${versions[-1]}")
base=$BUILD/minors
as_root rm -rf "$base"
mkdir -p "$base/packages"
for version in "${versions[@]}"; do
    say "unpacking PostgreSQL $version"
    rm -f "$base"/packages/*
    (cd "$base/packages" && apt-get download -qq "postgresql-$major=$version" "postgresql-client-$major=$version" "postgresql-server-dev-$major=$version" >&2) ||
        die "no packages of PostgreSQL $version"
    for package in "$base"/packages/*.deb; do dpkg-deb -x "$package" "$base/$version"; done
done
failed=0
# shellcheck disable=SC2086
tests=$(cd "$TOP" && for ext in $EXTENSIONS; do ls "$ext"/test/sql/*.sql "$ext"/test/specs/*.spec 2>/dev/null || true; done | wc -l)
for built in "${versions[@]}"; do
    for server in "${versions[@]}"; do
        [ "$built" != "$server" ] || continue
        work=$base/work-$built
        as_root rm -rf "$work"
        mkdir -p "$work"
        # shellcheck disable=SC2086
        (cd "$TOP" && tar -cf - --exclude='*.o' --exclude='*.so' --exclude='tmp_*' common $EXTENSIONS) | tar -xf - -C "$work"
        with=$base/$built/usr/lib/postgresql/$major/bin/pg_config
        on=$base/$server/usr/lib/postgresql/$major/bin/pg_config
        : >"$work/log"
        for ext in $EXTENSIONS; do
            make -s -j2 -C "$work/$ext" PG_CONFIG="$with" all >>"$work/log" 2>&1 && make -s -C "$work/$ext" PG_CONFIG="$on" install >>"$work/log" 2>&1 ||
                { tail -n 20 "$work/log" >&2; die "$ext could not be built for $built and installed into $server"; }
        done
        as_root chown -R "$SERVER_USER" "$work"
        for ext in $EXTENSIONS; do
            # built libraries are newer than their sources: nothing is made again
            as_server make -s -C "$work/$ext" PG_CONFIG="$on" TAP_TESTS= installcheck >"$base/$ext.log" 2>&1 ||
                { grep -E '^not ok|FAILED' "$base/$ext.log" >&2 || tail -n 20 "$base/$ext.log" >&2; }
        done
        good=$(cat "$base"/*.log | grep -cE '^(ok [0-9]+ |test .* \.\.\. ok|     .* \.\.\. ok)' || true)
        [ "$good" = "$tests" ] || [ "$built" != "${versions[0]}" ] || failed=1
        word=failed
        # a server that preloads the library does not start, and says it in its log
        [ "$built" = "${versions[0]}" ] || ! grep -rqsF 'undefined symbol' "$work" || word="refused, as the server lacks what they call"
        echo "minors: built for PostgreSQL ${built%%-*}, run on ${server%%-*}: $good passed, $((tests - good)) $word"
    done
done
as_root rm -rf "$base"
exit "$failed"
