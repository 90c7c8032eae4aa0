#!/usr/bin/env bash
# ci/install.sh [LABEL]: make what the demo and the benchmarks measure ready: build every
# extension for a server (see ci/lib.sh; this machine's if none is named) and install it
# there (into a copy of that server for users who may not).  Does nothing when the installed
# files are newer than the sources.
. "$(dirname "$0")/lib.sh"

label=${1:-host}
"$TOP/ci/server.sh" "$label"
pg_config=$(pg_config_of "$label")
stamp=$(work_of "$label")/.installed
if [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$pg_config" ]; then
    newer=no
    for ext in $EXTENSIONS; do
        on "$label" server "test -e \"\$($pg_config --pkglibdir)/$ext.so\"" || newer=yes
        [ -z "$(find "$TOP/$ext/src" "$TOP/$ext/sql" "$TOP/common" -newer "$stamp" -print -quit)" ] || newer=yes
    done
    [ "$newer" = yes ] || exit 0
fi
# shellcheck disable=SC2086
copy_tree "$label" common $EXTENSIONS
log=$OUT/install-$label.log
: >"$log"
for ext in $EXTENSIONS; do
    say "building and installing $ext for $(on "$label" server "$pg_config --version")"
    { on "$label" server "make -s -j2 -C $ext PG_CONFIG=$pg_config all" &&
        on "$label" root "make -s -C $ext PG_CONFIG=$pg_config install"; } >>"$log" 2>&1 ||
        { tail -n 20 "$log" >&2; die "$ext could not be built and installed (whole log: $log)"; }
done
on "$label" server "echo '$pg_config' >.installed"
