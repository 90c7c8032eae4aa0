#!/usr/bin/env bash
# ci/update.sh: what ALTER EXTENSION UPDATE leaves is what CREATE EXTENSION makes: from
# every version whose script (sql/EXTENSION--VERSION.sql) is there to the one of the
# control file.  Before there is a second version, and to see that a forgotten step is
# noticed, the same with a pretended next version.  The extensions must be installed on
# this machine's server (ci/check.sh host does); a copy of it is used.
. "$(dirname "$0")/lib.sh"

pg_config=$(pg_config_of host)
work=$BUILD/update
as_root_or_not() { if [ "$(id -un)" = "$SERVER_USER" ]; then "$@"; else as_root "$@"; fi; }
as_root_or_not rm -rf "$work"
as_root_or_not install -d -o "$SERVER_USER" "$work" "$work/sql"
for ext in $EXTENSIONS; do as_root_or_not cp "$TOP/$ext/$ext.control" "$TOP/$ext"/sql/*.sql "$work/sql/"; done
as_root_or_not chmod -R a+rX "$work"

# shellcheck disable=SC2016
as_server bash -euc '
    work=$1 pg_config=$2
    shift 2
    cd "$work"
    # a server finds its folders by their places relative to its programs
    bin=$("$pg_config" --bindir) lib=$("$pg_config" --pkglibdir) share=$("$pg_config" --sharedir)
    top=$bin
    until [[ $lib/ == "$top"/* && $share/ == "$top"/* ]]; do top=$(dirname "$top"); done
    mkdir server
    tar -C "$top" -cf - --exclude=bitcode --exclude=doc --exclude=pgxs "${bin#"$top"/}" "${lib#"$top"/}" "${share#"$top"/}" | tar -C server -xf -
    bin=server/${bin#"$top"/}
    scripts=server/${share#"$top"/}/extension
    sockets=$(mktemp -d -p /tmp)
    trap "$bin/pg_ctl -D data -m immediate stop >>log 2>&1 || true; rm -rf $sockets" EXIT
    "$bin/initdb" -D data -U postgres -A trust --no-sync >log
    libraries=$*
    "$bin/pg_ctl" -D data -l server.log -w start >>log \
        -o "-c listen_addresses= -c unix_socket_directories=$sockets -c fsync=off -c shared_preload_libraries=${libraries// /,}" ||
        { cat server.log >&2; exit 1; }
    ask() { "$bin/psql" -h "$sockets" -U postgres -X -At -v ON_ERROR_STOP=1 "$@"; }

    # made EXTENSION VERSION [VERSION...]: the objects of an extension that is made as the
    # first version and updated to the others, with all that may differ
    made() {
        local ext=$1 version
        databases=$((databases + 1))
        ask -qc "CREATE DATABASE made$databases TEMPLATE template0"
        ask -d "made$databases" -qc "SET client_min_messages = warning" -c "CREATE EXTENSION $ext VERSION \"$2\" CASCADE"
        shift 2
        for version in "$@"; do ask -d made$databases -qc "ALTER EXTENSION $ext UPDATE TO \"$version\""; done
        ask -d made$databases -v ext="$ext" <<\SQL
SELECT pg_describe_object(d.classid, d.objid, d.objsubid), obj_description(d.objid, d.classid::regclass::name),
       pg_get_function_result(p.oid), pg_get_function_arguments(p.oid), pg_get_function_sqlbody(p.oid),
       concat_ws(chr(32), p.prosrc, p.probin, p.provolatile, p.proisstrict, p.proparallel, p.prosecdef, p.proacl, p.proconfig, p.procost, p.prorows),
       concat_ws(chr(32), c.relkind, c.relacl, CASE WHEN c.relkind = $$v$$ THEN pg_get_viewdef(c.oid) END),
       (SELECT array_agg(ROW(a.attname, a.atttypid::regtype, a.attnotnull)::text ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
FROM pg_depend d
LEFT JOIN pg_proc p ON d.classid = $$pg_proc$$::regclass AND p.oid = d.objid
LEFT JOIN pg_class c ON d.classid = $$pg_class$$::regclass AND c.oid = d.objid
WHERE d.refclassid = $$pg_extension$$::regclass AND d.deptype = $$e$$ AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = :'"'"'ext'"'"')
ORDER BY 1;
SQL
    }
    failed=0
    passed=0
    databases=0
    # compare TEXT same|different FILE FILE
    compare() {
        if { [ "$2" = same ] && diff "$3" "$4" >differences; } || { [ "$2" = different ] && ! cmp -s "$3" "$4"; }; then passed=$((passed + 1))
        else
            failed=$((failed + 1))
            echo "FAILED: $1" >&2
            head -n 20 differences >&2
        fi
    }
    for ext in "$@"; do
        now=$(sed -n "s/^default_version = .\(.*\)./\1/p" "sql/$ext.control")
        made "$ext" "$now" >fresh
        [ -s fresh ] || { echo "$ext has no objects" >&2; exit 1; }
        for script in sql/"$ext"--*.sql; do
            version=${script#"sql/$ext--"}
            version=${version%.sql}
            case $version in *--* | "$now") continue ;; esac
            made "$ext" "$version" "$now" >updated
            compare "$ext updated from $version to $now" same fresh updated
        done
        step="CREATE FUNCTION ${ext}_next() RETURNS int LANGUAGE sql RETURN 1;"
        { cat "sql/$ext--$now.sql"; echo "$step"; } >"$scripts/$ext--next.sql"
        echo "$step" >"$scripts/$ext--$now--next.sql"
        echo "SELECT 1;" >"$scripts/$ext--$now--forgotten.sql"
        made "$ext" next >fresh
        made "$ext" "$now" next >updated
        compare "$ext updated to a next version" same fresh updated
        made "$ext" "$now" forgotten >updated
        compare "a forgotten step of $ext is noticed" different fresh updated
    done
    echo "ALTER EXTENSION UPDATE: $passed passed, $failed failed"
    [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
' update "$work" "$pg_config" $EXTENSIONS
as_root_or_not rm -rf "$work"
