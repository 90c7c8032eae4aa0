#!/usr/bin/env bash
# ci/upgrade.sh NEW [OLD]: the tests of pg_upgrade (*/test/t/*upgrade.pl) to the server
# of a root (17, 18, 19) from OLD, another root's server or host; by default the
# latest earlier one that is there.  The extensions must be installed in NEW, and
# in OLD if that is a root (ci/check.sh does).
#
# The old server's programs run where the new one is: its folders are copied there,
# with those of its libraries that the newer release does not have.
. "$(dirname "$0")/lib.sh"

[ $# -ge 1 ] && [ $# -le 2 ] || die "usage: ci/upgrade.sh NEW [OLD]"
new=$1 old=${2:-}
case $new in *[!0-9]*) die "no upgrade to $new: it has no root" ;; esac
new_root=$(root_of "$new")
if [ -z "$old" ]; then
    for ((major = new - 1; major > 0; major--)); do
        [ ! -e "$(root_of "$major")/usr/lib/postgresql/$major/lib/appendable_bytea.so" ] || break
    done
    old=$major
fi
[ "$old" -gt 0 ] 2>/dev/null || old=host
old_root=
[ "$old" = host ] || old_root=$(root_of "$old")
log=$BUILD/upgrade/$old-$new.log
mkdir -p "$BUILD/upgrade" "$BUILD/check"
: >"$log"

# asked OPTION: what the old server's pg_config answers
old_config=$(pg_config_of "$old")
asked() { if [ "$old" = host ]; then "$old_config" "$1"; else in_root "$old" root "$old_config $1"; fi; }
if [ "$old" = host ]; then
    [ "$(asked --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')" -lt "$new" ] || { say "no server before $new to upgrade from"; exit 0; }
    [ -e "$(asked --pkglibdir)/appendable_bytea.so" ] || "$TOP/ci/install.sh"
fi
bindir=$(asked --bindir)
libdir=$(asked --pkglibdir)
sharedir=$(asked --sharedir)

# A server finds its folders by their places relative to its programs.
common=$bindir
until [[ $libdir/ == "$common"/* && $sharedir/ == "$common"/* ]]; do common=$(dirname "$common"); done
place=/pg_lean_old/$old
as_root rm -rf "$new_root$place"
as_root mkdir -p "$new_root$place/libraries"
as_root tar -C "$old_root$common" -cf - --exclude=bitcode --exclude=doc "${bindir#"$common"/}" "${libdir#"$common"/}" "${sharedir#"$common"/}" |
    as_root tar -C "$new_root$place" -xf -
programs=$place/${bindir#"$common"/}

# Libraries that a program needs and the new release lacks come from the old one.
missing() {
    in_root "$new" root "LD_LIBRARY_PATH=$place/libraries; export LD_LIBRARY_PATH
        for p in postgres initdb pg_ctl pg_resetwal pg_controldata; do ldd $programs/\$p; done" |
        awk '/=> not found/ { print $1 }' | sort -u
}
for _ in 1 2 3 4; do
    lacking=$(missing)
    [ -n "$lacking" ] || break
    for library in $lacking; do
        path=$(find "$old_root"/usr/lib/*-linux-gnu "$old_root"/lib/*-linux-gnu -maxdepth 1 -name "$library" 2>/dev/null | head -n 1)
        [ -n "$path" ] || die "no $library for the programs of PostgreSQL $old"
        as_root cp -L "$path" "$new_root$place/libraries/"
    done
done

failed=0
tests=0
for test in "$TOP"/*/test/t/*upgrade.pl; do
    ext=${test#"$TOP"/}
    file=${ext#*/}
    ext=${ext%%/*}
    [ -e "$old_root$libdir/$ext.so" ] || die "$ext is not installed in PostgreSQL $old: run ci/check.sh $old $ext"
    say "pg_upgrade of $ext from PostgreSQL $old to $new"
    if on "$new" server "PG_LEAN_OLD_BINDIR=$programs LD_LIBRARY_PATH=$place/libraries \
        make -s -C $ext PG_CONFIG=$(pg_config_of "$new") REGRESS= ISOLATION= PROVE_TESTS='$file' installcheck" >>"$log" 2>&1 &&
        ! grep -q 'skipped' "$log"; then
        tests=$((tests + $(sed -n 's/^Files=[0-9]*, Tests=\([0-9]*\),.*/\1/p' "$log" | tail -n 1)))
    else
        failed=$((failed + 1))
        tail -n 60 "$log" >&2
        say "FAILED: pg_upgrade of $ext from PostgreSQL $old to $new (whole log: $log)"
    fi
done
as_root rm -rf "$new_root$place"
echo "pg_upgrade from PostgreSQL $old to $new: $tests passed, $failed failed"
echo "$tests $failed" >"$BUILD/check/upgrade-$old-$new.count"
[ "$failed" = 0 ] && [ "$tests" -gt 0 ]
