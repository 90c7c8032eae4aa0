# Shell functions that every script in ci/ shares: where servers and work trees
# live, who runs the server, and how to run a command where a given server is.
#
# A server is named by a label:
#   host        the server that PG_CONFIG (default: pg_config on PATH) belongs to
#   17, 18, 19  Debian's packages of that version, in a debootstrap root
#   16          the same of Ubuntu (no Debian release has it): see ci/server.sh
#   18-assert   an assertion-enabled server built from Debian's source package
#
# Sourced, never run.  Sets TOP (the repository) and BUILD (everything made).
set -euo pipefail

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
# PostgreSQL's makefiles leave out the generated headers when they are not the
# outermost make: what is built here never belongs to the make that called us.
unset MAKELEVEL MAKEFLAGS MFLAGS

say() { printf '%s == %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

# as_root COMMAND...: run as root, through sudo for an ordinary user.
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else die "'$*' needs root: run as root or install sudo"; fi
}

# PostgreSQL refuses to run as root, so root hands the server to "postgres".
if [ "$(id -u)" = 0 ]; then SERVER_USER=postgres; else SERVER_USER=$(id -un); fi

# as_server COMMAND...: run as the user that owns test servers.
as_server() {
    if [ "$(id -un)" = "$SERVER_USER" ]; then "$@"
    else setpriv --reuid="$SERVER_USER" --regid="$(id -g "$SERVER_USER")" --init-groups env HOME=/tmp "$@"; fi
}

# Everything made goes below build/, or below a folder of /var/tmp when the
# server's user cannot enter the repository (a checkout in root's home).
BUILD=${PG_LEAN_BUILD:-$TOP/build}
mkdir -p "$BUILD"
if id "$SERVER_USER" >/dev/null 2>&1 && ! as_server test -x "$BUILD"; then
    BUILD=/var/tmp/pg_lean-$(printf %s "$TOP" | cksum | cut -d' ' -f1)
    mkdir -p "$BUILD"
fi
BUILD=$(cd "$BUILD" && pwd)

EXTENSIONS="parallel_temp appendable_bytea light_explain"

# packages PACKAGE...: install the Debian packages that are missing.
packages() {
    local missing=() p
    for p in "$@"; do
        dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    say "installing ${missing[*]}"
    as_root apt-get update -qq || true
    as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# mirror: where this machine gets Debian from, so that roots of other releases
# come from the same place.
mirror() {
    apt-get indextargets --format '$(REPO_URI)|$(ORIGIN)|$(LABEL)' |
        awk -F'|' '$2 == "Debian" && $3 == "Debian" { sub("/$", "", $1); print $1; exit }'
}

# release_of MAJOR: the release that carries that PostgreSQL.
release_of() {
    case $1 in 15) echo bookworm ;; 16) echo noble ;; 17) echo trixie ;; 18) echo sid ;; 19) echo experimental ;;
        *) die "no release known for PostgreSQL $1" ;; esac
}

root_of() { echo "$BUILD/root/$1"; }

# in_root MAJOR USER COMMAND: run a shell command in a debootstrap root, with
# /proc and /dev of its own mount namespace: nothing stays mounted afterwards.
in_root() {
    local root user=$2 cmd=$3
    root=$(root_of "$1")
    as_root unshare --mount --propagation private sh -ec '
        mount --rbind /dev "$1/dev"; mount -t proc proc "$1/proc"
        exec chroot --userspec="$2:$2" "$1" env -i HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
            DEBIAN_FRONTEND=noninteractive CI="${4:-}" PG_LEAN_QUICK="${5:-}" sh -ec "$3"' \
        in_root "$root" "$user" "$cmd" "${CI:-}" "${PG_LEAN_QUICK:-}"
}

# pg_config_of LABEL: path of pg_config as seen where that server's commands run.
pg_config_of() {
    case $1 in
        host) command -v "${PG_CONFIG:-pg_config}" ;;
        *-assert) echo "$BUILD/server/$1/bin/pg_config" ;;
        *) echo "/usr/lib/postgresql/$1/bin/pg_config" ;;
    esac
}

# work_of LABEL / seen_work_of LABEL: the private copy of the repository that is
# built for a server, as seen from here and as seen by that server.
work_of() {
    case $1 in host | *-assert) echo "$BUILD/work/$1" ;; *) echo "$(root_of "$1")/pg_lean" ;; esac
}
seen_work_of() { case $1 in host | *-assert) work_of "$1" ;; *) echo /pg_lean ;; esac; }

# on LABEL root|server COMMAND: run a shell command where that server is, in its
# work tree.
on() {
    local label=$1 who=$2 cmd="cd $(seen_work_of "$1") && $3"
    case $label in
        host | *-assert)
            if [ "$who" = root ]; then as_root sh -ec "$cmd"; else as_server sh -ec "$cmd"; fi ;;
        *) if [ "$who" = root ]; then in_root "$label" root "$cmd"; else in_root "$label" postgres "$cmd"; fi ;;
    esac
}

# copy_tree LABEL FOLDER...: put these folders of the repository into the work
# tree of a server, owned by the user that runs it there.
copy_tree() {
    local label=$1 work owner=$SERVER_USER f
    shift
    work=$(work_of "$label")
    case $label in host | *-assert) ;; *) owner=$(in_root "$label" root 'id -u postgres') ;; esac
    as_root mkdir -p "$work"
    for f in "$@"; do
        as_root rm -rf "${work:?}/$f"
        (cd "$TOP" && tar -cf - --exclude='*.o' --exclude='*.so' --exclude=__pycache__ --exclude='tmp_*' \
            --exclude=results --exclude=log --exclude=output_iso "$f") | as_root tar -xf - -C "$work" --no-same-owner
    done
    as_root chown -R "$owner" "$work"
}
