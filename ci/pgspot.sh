#!/usr/bin/env bash
# ci/pgspot.sh [--explain CODE]: pgspot over the scripts of CREATE EXTENSION and of ALTER
# EXTENSION UPDATE: names in them that are found by the caller's search path, and objects of another
# role that they adopt.  It is installed into a separate environment below build/,
# because it needs a parser of PostgreSQL that the lab does not.
. "$(dirname "$0")/lib.sh"

venv=$OUT/pgspot
if ! "$venv/bin/pgspot" -h >/dev/null 2>&1; then
    packages python3 python3-venv
    say "installing pgspot (log: $OUT/pgspot.log)"
    rm -rf "$venv"
    "$(find_python)" -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check pgspot >"$OUT/pgspot.log" 2>&1 ||
        { tail -n 5 "$OUT/pgspot.log" >&2; die "pgspot could not be installed"; }
fi
if [ $# -gt 0 ]; then exec "$venv/bin/pgspot" "$@"; fi

# their bodies, which are strings, name all schemas; with a setting of search_path they would not be inlined
qualified=(--proc-without-search-path "appendable_jsonb_cat(appendable_jsonb,appendable_jsonb)")
for type in bool numeric int2 int4 int8 float4 float8; do
    qualified+=(--proc-without-search-path "appendable_jsonb_to_$type(appendable_jsonb)")
done

failed=0
scripts=0
for script in "$TOP"/*/sql/*.sql; do
    scripts=$((scripts + 1))
    # as the server reads it: without psql's commands, with names for @extschema@
    sed -E '/^\\/d; s/@extschema@/extension_schema/g' "$script" >"$OUT/pgspot.sql"
    if ! "$venv/bin/pgspot" --ignore PS017 "${qualified[@]}" "$OUT/pgspot.sql" >"$OUT/pgspot.out" 2>&1 || ! grep -q 'Errors: 0 Warnings: 0 Unknown: 0' "$OUT/pgspot.out"; then
        failed=$((failed + 1))
        sed "s|^|${script#"$TOP"/}: |" "$OUT/pgspot.out" >&2
    fi
done
rm -f "$OUT/pgspot.sql" "$OUT/pgspot.out"
version=$("$venv/bin/pip" show pgspot 2>/dev/null | sed -n 's/^Version: //p')
echo "scripts: pgspot $version finds nothing in $((scripts - failed)) of $scripts"
[ "$failed" = 0 ] && [ "$scripts" -gt 0 ]
