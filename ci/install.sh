#!/usr/bin/env bash
# ci/install.sh: make what the demo and the benchmarks measure ready: build every
# extension for this machine's server and install it there (into a copy of that
# server for who may not).  Does nothing when the installed files are newer than the
# sources.
. "$(dirname "$0")/lib.sh"

"$TOP/ci/server.sh" host
pg_config=$(pg_config_of host)
stamp=$BUILD/work/host/.installed
if [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$pg_config" ]; then
    newer=no
    for ext in $EXTENSIONS; do
        [ -e "$("$pg_config" --pkglibdir)/$ext.so" ] || newer=yes
        [ -z "$(find "$TOP/$ext/src" "$TOP/$ext/sql" "$TOP/common" -newer "$stamp" -print -quit)" ] || newer=yes
    done
    [ "$newer" = yes ] || exit 0
fi
# shellcheck disable=SC2086
copy_tree host common $EXTENSIONS
log=$OUT/install.log
: >"$log"
for ext in $EXTENSIONS; do
    say "building and installing $ext for $("$pg_config" --version)"
    { on host server "make -s -j2 -C $ext PG_CONFIG=$pg_config all" &&
        on host root "make -s -C $ext PG_CONFIG=$pg_config install"; } >>"$log" 2>&1 ||
        { tail -n 20 "$log" >&2; die "$ext could not be built and installed (whole log: $log)"; }
done
as_server tee "$stamp" >/dev/null <<<"$pg_config"
