# shellcheck shell=bash
# Shell functions that every script in ci/ shares: where servers and work trees
# live, who runs the server, and how to run a command where a given server is.
#
# A server is named by a label:
#   host        the server that PG_CONFIG (default: pg_config on PATH) belongs to
#   15, 17, 18, 19  Debian's packages of that version, in a debootstrap root
#   16          the same of Ubuntu (no Debian release has it): see ci/server.sh
#   18-assert   an assertion-enabled server built from Debian's source package
#
# Sourced, never run.  Sets TOP (the repository) and BUILD (everything made).
set -euo pipefail

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export LC_ALL=C.UTF-8
# PostgreSQL's makefiles leave out the generated headers when they are not the
# outermost make: what is built here never belongs to the make that called us.
unset MAKELEVEL MAKEFLAGS MFLAGS

# The test servers are private: where the user's own is (PGPORT, PGSERVICE,
# PGOPTIONS...) must not reach them.  With USER_SERVER=1 that is what is wanted.
if [ "${USER_SERVER:-}" != 1 ]; then
    for name in $(compgen -e | grep '^PG[A-Z]' || true); do unset "$name"; done
fi

say() { printf '%s == %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# can_root: can we become root here without a password prompt?
can_root() {
    [ "$(id -u)" = 0 ] && return 0
    command -v sudo >/dev/null || return 1
    sudo -n true 2>/dev/null || { [ -t 2 ] && id -nG | grep -qwE 'sudo|wheel|admin'; }
}

# as_root COMMAND...: run as root, through sudo for an ordinary user.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif can_root; then sudo "$@"
    else die "'$*' needs root: run as root or with sudo"; fi
}

# PostgreSQL refuses to run as root, so root hands the server to "postgres".
if [ "$(id -u)" = 0 ]; then SERVER_USER=postgres; else SERVER_USER=$(id -un); fi

# as_server COMMAND...: run as the user that owns test servers.
as_server() {
    if [ "$(id -un)" = "$SERVER_USER" ]; then "$@"
    else setpriv --reuid="$SERVER_USER" --regid="$(id -g "$SERVER_USER")" --init-groups env HOME=/tmp "$@"; fi
}

# server_enters FOLDER: can the server's user go there?  Before PostgreSQL is
# installed there is no such user, and an unprivileged one is checked instead: the
# folder of servers must be the same one before and after.
server_enters() {
    if id "$SERVER_USER" >/dev/null 2>&1; then as_server test -x "$1"
    else setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$1"; fi
}

# Everything built goes below build/ (OUT), except files that servers must reach (BUILD):
# that is below a folder of /var/tmp when their user cannot enter the repository
# (a clone in root's home).
OUT=${PG_LEAN_BUILD:-$TOP/build}
mkdir -p "$OUT" 2>/dev/null || true
[ -w "$OUT" ] || die "cannot write $OUT: set PG_LEAN_BUILD to a folder of yours"
OUT=$(cd "$OUT" && pwd)
BUILD=$OUT
if ! server_enters "$OUT"; then
    BUILD=/var/tmp/pg_lean-$(printf %s "$TOP" | cksum | cut -d' ' -f1)
    mkdir -p "$BUILD"
fi

# shellcheck disable=SC2034  # of the scripts that source this file
EXTENSIONS="parallel_temp appendable_bytea light_explain ram_tablespace"
# In development: tested, but neither installed for users nor packaged.
# shellcheck disable=SC2034
UNSHIPPED="recycled_temp"
# The same, but a program (make streams), not an extension.
# shellcheck disable=SC2034
UNSHIPPED_PROGRAMS="streams"

# not_installed PACKAGE...: those of these Debian packages that are not installed; with
# PACKAGE=VERSION, not in that version.
not_installed() {
    local p have
    for p in "$@"; do
        have=$(dpkg-query -W -f='${db:Status-Status} ${Version}' "${p%%=*}" 2>/dev/null || true)
        case $p in
            *=*) [ "$have" = "installed ${p#*=}" ] || echo "$p" ;;
            *) [ "${have%% *}" = installed ] || echo "$p" ;;
        esac
    done
}

# servers_but PACKAGE...: the packages of PostgreSQL servers and clients that are
# installed and not among these, each as PACKAGE=VERSION.
servers_but() {
    dpkg-query -W -f='${db:Status-Status} ${Package}=${Version}\n' 'postgresql-*' 2>/dev/null | sed -nE 's/^installed (postgresql-(client-)?[0-9]+=)/\1/p' |
        grep -vE "^($(printf '%s|' "${@%%=*}")-)=" || true
}

# packages PACKAGE...: install the Debian packages that are missing; who may not is
# told which.  A server that is there keeps its minor release unless it is one of
# those named: apt brings all packages of one source to a version that is asked of
# one.  On other systems the user sees to them.
packages() {
    local wanted servers automatic
    command -v dpkg-query >/dev/null || return 0
    mapfile -t wanted < <(not_installed "$@")
    [ ${#wanted[@]} -gt 0 ] || return 0
    can_root || die "missing packages; ask an administrator for: apt-get install --no-install-recommends ${wanted[*]}"
    say "installing ${wanted[*]} (log: $OUT/packages.log)"
    read_package_lists
    mapfile -t servers < <(servers_but "${wanted[@]}")
    # naming them marks them as manually installed
    mapfile -t automatic < <([ ${#servers[@]} = 0 ] || apt-mark showauto "${servers[@]%%=*}")
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends --allow-downgrades "${wanted[@]}" "${servers[@]}" \
        </dev/null >>"$OUT/packages.log" 2>&1 ||
        { tail -n 20 "$OUT/packages.log" >&2; die "could not install ${wanted[*]} (whole log: $OUT/packages.log)"; }
    [ ${#automatic[@]} = 0 ] || as_root apt-mark auto "${automatic[@]}" >>"$OUT/packages.log" 2>&1
}

# find_python: a Python that can make environments; Debian's own if possible.
find_python() {
    local p
    for p in /usr/bin/python3 "$(command -v python3 || true)"; do
        if [ -x "$p" ] && "$p" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
            echo "$p"
            return 0
        fi
    done
    return 1
}

# read_package_lists: update the package lists; once in a run, and only if permitted.
read_package_lists() {
    [ "${PACKAGE_LISTS_READ:-}" != 1 ] && can_root || return 0
    as_root apt-get update >"$OUT/packages.log" 2>&1 || true
    PACKAGE_LISTS_READ=1
}

# mirror: where this machine gets Debian from, so that roots of other releases
# come from the same place.
mirror() {
    apt-get indextargets --format '$(REPO_URI)|$(ORIGIN)|$(LABEL)' |
        awk -F'|' '$2 == "Debian" && $3 == "Debian" { sub("/$", "", $1); print $1; exit }'
}

# ubuntu_mirror: where PostgreSQL 16 comes from, and KEYRING_16; not this machine's to know.
ubuntu_mirror() {
    [ -n "${MIRROR_16:-}" ] || die "set MIRROR_16 to the address of an Ubuntu mirror, KEYRING_16 to the file of its keys (package ubuntu-keyring)"
    echo "$MIRROR_16"
}
KEYRING_16=${KEYRING_16:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}

# release_of MAJOR: the release that carries that PostgreSQL.
release_of() {
    case $1 in 15) echo bookworm ;; 16) echo noble ;; 17) echo trixie ;; 18) echo sid ;; 19) echo experimental ;;
        *) die "no release known for PostgreSQL $1" ;; esac
}

root_of() { echo "$BUILD/root/$1"; }

# in_root MAJOR USER COMMAND: run a shell command in a debootstrap root, with
# /proc and /dev in a private mount namespace: nothing stays mounted afterwards.
in_root() {
    local root user=$2 cmd=$3
    root=$(root_of "$1")
    as_root unshare --mount --propagation private sh -ec '
        mount --rbind /dev "$1/dev"; mount -t proc proc "$1/proc"
        exec chroot --userspec="$2:$2" "$1" env -i HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
            DEBIAN_FRONTEND=noninteractive CI="${4:-}" sh -ec "$3"' \
        in_root "$root" "$user" "$cmd" "${CI:-}"
}

# host_pg_config: the pg_config of this machine's own server, PG_CONFIG if that is
# set; nothing when there is none.  A pg_config without a server next to it (libpq-dev
# has one, the client's package too) does not count.
host_pg_config() {
    local found bindir major
    if [ -n "${PG_CONFIG:-}" ]; then
        command -v "$PG_CONFIG" || die "PG_CONFIG=$PG_CONFIG: no such program"
        return 0 # in a trap, the status of a bare "return" would be that of the command before the trap
    fi
    while read -r found; do
        bindir=$("$found" --bindir 2>/dev/null || true)
        [ -x "$bindir/postgres" ] || continue
        major=$(major_of "$found")
        if [ "$major" -ge 15 ] && [ "$major" -le 19 ]; then
            # the wrapper on Debian's PATH means another server once one is installed
            if [ -x "$bindir/pg_config" ]; then echo "$bindir/pg_config"; else echo "$found"; fi
            return 0
        fi
    done < <(command -v pg_config || true; printf '%s\n' /usr/lib/postgresql/*/bin/pg_config | sort -rV)
    return 1
}

# major_of PG_CONFIG: 15
major_of() { "$1" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/'; }

# A copy of this machine's server, for users who may not write into the real one; the file
# says whose copy it is (see ci/server.sh).
PRIVATE=$BUILD/server/host

# pg_config_of LABEL: path of pg_config as seen where that server's commands run.
pg_config_of() {
    case $1 in
        host)
            local found
            found=$(host_pg_config) || die "no PostgreSQL 15 to 19 here: run make setup, or set PG_CONFIG"
            if [ "$(cat "$PRIVATE/.copy_of" 2>/dev/null)" = "$found" ]; then
                echo "$PRIVATE/lib/postgresql/$(major_of "$found")/bin/pg_config"
            else echo "$found"; fi ;;
        *-assert) echo "$BUILD/server/$1/bin/pg_config" ;;
        *) echo "/usr/lib/postgresql/$1/bin/pg_config" ;;
    esac
}

# may_install PG_CONFIG: are that server's folders ours to write?
may_install() { [ -w "$("$1" --pkglibdir)" ] && [ -w "$("$1" --sharedir)/extension" ]; }

# work_of LABEL / seen_work_of LABEL: the private copy of the repository that is
# built for a server, as seen from here and as seen by that server.
work_of() {
    case $1 in host | *-assert) echo "$BUILD/work/$1" ;; *) echo "$(root_of "$1")/pg_lean" ;; esac
}
seen_work_of() { case $1 in host | *-assert) work_of "$1" ;; *) echo /pg_lean ;; esac; }

# on LABEL root|server COMMAND: run a shell command where that server is, in its
# work tree.
on() {
    local label=$1 who=$2 cmd
    # pg_regress and pg_ctl wait a minute for a server to start, which on a busy machine is not enough
    cmd="export PGCTLTIMEOUT=600; cd $(seen_work_of "$1") && $3"
    case $label in
        host | *-assert)
            if [ "$who" = server ]; then as_server sh -ec "$cmd"
            elif may_install "$(pg_config_of "$label")"; then sh -ec "$cmd"
            else as_root sh -ec "$cmd"; fi ;;
        *) if [ "$who" = root ]; then in_root "$label" root "$cmd"; else in_root "$label" postgres "$cmd"; fi ;;
    esac
}

# copy_tree LABEL FOLDER...: put these folders of the repository into the work
# tree of a server, owned by the user that runs it there.
copy_tree() {
    local label=$1 work owner=$SERVER_USER with="as_root" f
    shift
    work=$(work_of "$label")
    case $label in host | *-assert) ;; *) owner=$(in_root "$label" root 'id -u postgres') ;; esac
    [ "$(id -un)" != "$owner" ] || with="env"
    "$with" mkdir -p "$work"
    for f in "$@"; do
        "$with" rm -rf "${work:?}/$f" || die "$work holds another user's files: run make clean as that user"
        (cd "$TOP" && tar -cf - --exclude='*.o' --exclude='*.so' --exclude=__pycache__ --exclude='tmp_*' \
            --exclude=results --exclude=log --exclude=output_iso "$f") | "$with" tar -xf - -C "$work" --no-same-owner
    done
    "$with" chown -R "$owner" "$work"
}
