#!/usr/bin/env bash
# ci/install.sh: build every extension for the server of PG_CONFIG and install it;
# does nothing when the installed files are newer than the sources.
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
for ext in $EXTENSIONS; do
    say "building and installing $ext for $("$pg_config" --version)"
    on host server "make -s -j2 -C $ext PG_CONFIG=$pg_config all"
    on host root "make -s -C $ext PG_CONFIG=$pg_config install" >/dev/null
done
echo "$pg_config" | as_root tee "$stamp" >/dev/null
