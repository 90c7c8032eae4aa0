#!/usr/bin/env bash
# ci/citus.sh [LABEL]: the extensions on more than one machine, with Citus: a coordinator and
# two workers on this machine's loopback, see ci/citus.pl.  SRC=FOLDER_OR_ARCHIVE is Citus's
# source, which is built for that server (default: 17, see ci/lib.sh); Debian has no package.
. "$(dirname "$0")/lib.sh"

label=${1:-17}
if [ -z "${SRC:-}" ]; then
    echo "citus: skipped: no source given (SRC=...)"
    exit 0
fi
[ -e "$SRC" ] || die "no such folder or archive: $SRC"
"$TOP/ci/server.sh" "$label"
pg_config=$(pg_config_of "$label")
needed="libcurl4-openssl-dev liblz4-dev libzstd-dev libssl-dev libicu-dev libxml2-dev libkrb5-dev libpq-dev flex"
case $label in
    host | *-assert)
        # shellcheck disable=SC2086
        packages $needed ;;
    *)
        in_root "$label" root "dpkg -s $needed" >/dev/null 2>&1 ||
            in_root "$label" root "apt-get -o Acquire::Check-Valid-Until=false update; apt-get install -y --no-install-recommends $needed" \
                </dev/null >"$OUT/packages.log" 2>&1 || die "could not install what Citus is built with (log: $OUT/packages.log)" ;;
esac
# shellcheck disable=SC2086
copy_tree "$label" ci common $EXTENSIONS
for ext in $EXTENSIONS; do
    on "$label" server "make -s -j2 -C $ext PG_CONFIG=$pg_config all" >/dev/null
    on "$label" root "make -s -C $ext PG_CONFIG=$pg_config install" >/dev/null
done

# Its build takes minutes and is kept.
base=$(work_of "$label")/citus
made_of="$pg_config $(if [ -d "$SRC" ]; then echo "$SRC"; else cksum <"$SRC"; fi)"
if [ "$(cat "$base/.built" 2>/dev/null)" != "$made_of" ]; then
    as_root rm -rf "$base"
    on "$label" server "mkdir citus"
    if [ -d "$SRC" ]; then (cd "$SRC" && tar -cf - .) | as_root tar -xf - -C "$base"; else as_root tar -xf "$SRC" -C "$base"; fi
    as_root chown -R --reference="$base" "$base"
    folder=citus/$(cd "$base" && find . -maxdepth 2 -name configure -printf '%h\n' | head -n 1)
    say "building Citus for PostgreSQL $label"
    on "$label" server "(cd $folder && PG_CONFIG=$pg_config ./configure --without-libcurl && make -s -j2 with_llvm=no all) >citus/build.log 2>&1" ||
        { tail -n 20 "$base/build.log" >&2; die "Citus does not build: see $base/build.log"; }
    on "$label" root "make -s -C $folder with_llvm=no install >>citus/build.log 2>&1" ||
        { tail -n 20 "$base/build.log" >&2; die "Citus does not install: see $base/build.log"; }
    as_root tee "$base/.built" >/dev/null <<<"$made_of"
fi

say "a coordinator and two workers on PostgreSQL $label"
log=$base/tests.log
status=0
# Servers of the TAP tests listen on loopback besides, for Citus speaks TCP.
on "$label" server "make -s -C appendable_bytea PG_CONFIG=$pg_config REGRESS= ISOLATION= PROVE_TESTS=../ci/citus.pl PROVE_FLAGS=-v installcheck >$(seen_work_of "$label")/citus/tests.log 2>&1" || status=$?
sed -nE 's/^(not ok|ok) [0-9]+ - /citus: \1: /p; s/^# (Citus .*)/citus: \1/p' "$log"
passed=$(grep -cE '^ok [0-9]' "$log" || true)
failed=$(grep -cE '^not ok [0-9]' "$log" || true)
if [ "$status" != 0 ]; then
    tail -n 60 "$log" >&2
    [ "$failed" -gt 0 ] || failed=1
fi
echo "PostgreSQL $label with Citus: $passed passed, $failed failed"
exit "$status"
