#!/usr/bin/env bash
# ci/catalog.sh [TABLES]: what CREATE TEMP TABLE and DROP TABLE of so many tables (300)
# are made of: instructions of a single-user server by function, with all that each
# calls, counted by valgrind's callgrind.  Only the statements and their commits are
# counted, and what the first fifty take, which fill the caches, is taken off.  docs/temporary-catalogs.md shows it.
. "$(dirname "$0")/lib.sh"

tables=${1:-300}
command -v valgrind >/dev/null || die "valgrind is not installed"
bindir=$("${PG_CONFIG:-pg_config}" --bindir)
work=$(mktemp -d -p "$BUILD")
chmod 755 "$work"
[ "$(id -u)" != 0 ] || chown "$SERVER_USER" "$work"
trap 'rm -rf "$work"' EXIT
as_server "$bindir/initdb" -D "$work/data" -A trust --no-sync >"$work/initdb.log" 2>&1 || die "initdb failed: $(tail -n 3 "$work/initdb.log")"

# statements COUNT
statements() {
    for ((i = 0; i < $1; i++)); do
        echo "CREATE TEMP TABLE t (a int, b int, c int, d text)"
        echo "DROP TABLE t"
    done
}
# counted COUNT FILE: run so many
counted() {
    statements "$1" | as_server valgrind --tool=callgrind --callgrind-out-file="$2" --collect-atstart=no \
        --toggle-collect=PortalRun --toggle-collect=CommitTransactionCommand \
        "$bindir/postgres" --single -D "$work/data" -c fsync=off -c shared_buffers=64MB -c autovacuum=off postgres >"$work/log" 2>&1 || die "$(tail -n 5 "$work/log")"
}
counted 50 "$work/few"
counted $((50 + tables)) "$work/many"

# inclusive FILE: "instructions function" for each function of the server
inclusive() {
    callgrind_annotate --inclusive=yes --tree=none --threshold=100 --auto=no "$1" |
        sed -nE "s/^ *([0-9,]+) \\([^)]*\\) +[^ ]*:([A-Za-z_0-9']+) \\[.*/\\1 \\2/p; s/^ *([0-9,]+) .*PROGRAM TOTALS.*/\\1 total/p" | tr -d ,
}
inclusive "$work/few" >"$work/few.txt"
inclusive "$work/many" >"$work/many.txt"

awk -v tables="$tables" '
    NR == FNR { if (!($2 in few)) few[$2] = $1; next }
    !($2 in many) { many[$2] = $1 }
    END {
        n = split("total|all|" \
            "heap_create_with_catalog|making the table: its rows in pg_class, pg_attribute, pg_type, pg_depend|" \
            "TypeCreate|of that: its row type and the array type|" \
            "NewRelationCreateToastTable|making its TOAST table, with an index|" \
            "performMultipleDeletions|dropping: finding what depends on it, deleting their rows|" \
            "CommitTransactionCommand|commit: WAL, invalidations, files|" \
            "CatalogTupleInsert|putting in rows one by one, with index entries|" \
            "CatalogTuplesMultiInsertWithInfo|putting in rows of pg_attribute and pg_depend, with index entries|" \
            "btinsert|index entries|" \
            "CatalogTupleDelete|deleting rows|" \
            "systable_beginscan|looking up rows of catalogs: start|" \
            "systable_getnext|looking up rows of catalogs|" \
            "GetNewOidWithIndex|unused numbers|" \
            "XLogInsert|WAL records|" \
            "CommandCounterIncrement|making changes seen by what follows|" \
            "LocalExecuteInvalidationMessage|forgetting what caches hold|" \
            "RelationBuildTupleDesc|descriptions of relations, rebuilt|" \
            "RelationCreateStorage|creating files (without the kernel)|" \
            "smgrDoPendingDeletes|deleting files (without the kernel)", field, "|")
        print "instructions of one CREATE and DROP, and of functions with all that they call:"
        for (i = 1; i < n; i += 2) {
            of = (many[field[i]] - few[field[i]]) / tables
            if (field[i] == "total") all = of
            if (of > 0) printf "%10d  %5.1f %%  %-34s %s\n", of, 100 * of / all, field[i], field[i + 1]
        }
    }' "$work/few.txt" "$work/many.txt"
