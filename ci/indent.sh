#!/usr/bin/env bash
# ci/indent.sh [--check]: lay out the C code as PostgreSQL's own pgindent does
# (from the source package of 18), with typedefs.list; --check only tells.
. "$(dirname "$0")/lib.sh"

packages build-essential perl
source=$("$TOP/ci/source.sh" 18)
tool=$BUILD/pg_bsd_indent
if [ ! -x "$tool" ]; then
    say "building pg_bsd_indent"
    d=$source/src/tools/pg_bsd_indent
    "$TOP/ci/server.sh" host
    pg_config=$(pg_config_of host)
    gcc -O1 -w "-Dpg_noreturn=_Noreturn" -I"$("$pg_config" --includedir-server)" -I"$d" -o "$tool" "$d"/{args,err,indent,io,lexi,parse,pr_comment}.c -L"$("$pg_config" --pkglibdir)" \
        -L"$("$pg_config" --libdir)" -lpgcommon -lpgport -lm
fi
args=(--indent "$tool" --typedefs "$BUILD/typedefs")
sort -u "$source/src/tools/pgindent/typedefs.list" "$TOP/typedefs.list" >"$BUILD/typedefs"
[ "${1:-}" = --check ] && args+=(--check --diff)
cd "$TOP"
find common parallel_temp/src parallel_temp/test appendable_bytea/src light_explain/src light_explain/test ram_tablespace/src recycled_temp/src -name '*.[ch]' -print0 | sort -z |
    xargs -0 -r perl "$source/src/tools/pgindent/pgindent" "${args[@]}" && say "layout is as pgindent leaves it"
