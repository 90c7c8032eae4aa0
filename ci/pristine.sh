# shellcheck shell=bash
# Shell functions for tests in pristine roots (ci/fresh.sh, ci/package.sh): a
# base root for each Debian release, copies of it in some state, commands in them.
#
# Sourced after ci/lib.sh, never run.  The caller sets state (a name), release, root
# (the state's root) and log (where its logs begin).
FRESH=$BUILD/fresh

# security_mirror: where this machine gets Debian's security updates from.
security_mirror() {
    apt-get indextargets --format '$(REPO_URI)|$(LABEL)' | awk -F'|' '$2 == "Debian-Security" { sub("/$", "", $1); print $1; exit }'
}

# base RELEASE: the pristine root that the states of a release are copies of.
base() {
    local base=$FRESH/base/$1 from script=()
    [ ! -e "$base/.ready" ] || return 0
    packages debootstrap
    from=$(mirror)
    if [ "$1" = noble ]; then
        from=$(ubuntu_mirror)
        script=("--keyring=$KEYRING_16" "--components=main,universe")
    fi
    say "making a pristine root of $1"
    as_root rm -rf "$base"
    mkdir -p "$FRESH/base" "$FRESH/packages-$1/partial"
    as_root debootstrap --variant=minbase "${script[@]}" --include=make,ca-certificates "$1" "$base" "$from" \
        "$([ "$1" = noble ] && echo /usr/share/debootstrap/scripts/gutsy || echo /usr/share/debootstrap/scripts/sid)" >"$FRESH/base-$1.log" 2>&1 ||
        { tail -n 20 "$FRESH/base-$1.log" >&2; die "debootstrap $1 failed"; }
    # A newer minor release than that of the release itself comes from its updates.
    case $1 in
        noble) echo "deb $from noble-updates main universe" ;;
        sid) ;; # has no separate updates
        *) [ -z "$(security_mirror)" ] || echo "deb $(security_mirror) $1-security main" ;;
    esac | as_root tee -a "$base/etc/apt/sources.list" >/dev/null
    # The settings by which this machine reaches its mirrors are copied into the root; roots share the
    # folder of packages.
    printf 'Acquire::Check-Valid-Until "false";\nAcquire::Check-Date "false";\nDebug::NoLocking "true";\n' | as_root tee "$base/etc/apt/apt.conf.d/90pristine" >/dev/null
    as_root cp -L /etc/ssl/certs/ca-certificates.crt "$base/etc/ssl/certs/ca-certificates.crt"
    [ ! -e /etc/pip.conf ] || as_root cp /etc/pip.conf "$base/etc/pip.conf"
    # Packages unpack faster, and services stay where they are.
    echo force-unsafe-io | as_root tee "$base/etc/dpkg/dpkg.cfg.d/unsafe" >/dev/null
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$base/usr/sbin/policy-rc.d" >/dev/null
    as_root chmod 755 "$base/usr/sbin/policy-rc.d"
    as_root touch "$base/.ready"
}

# inside USER COMMAND: run a command as that user logs in, in the state's root, with
# private mounts and processes: none outlives it.
inside() {
    as_root unshare --mount --pid --fork --kill-child --propagation private sh -c '
        mount --rbind /dev "$1/dev" && mount -t proc proc "$1/proc" && mount --bind "$4" "$1/var/cache/apt/archives" || exit 1
        home=$(chroot "$1" getent passwd "$2" | cut -d: -f6)
        path=/usr/local/bin:/usr/bin:/bin
        [ "$2" != root ] || path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
        # a child, for the first process of a namespace has orphans to bury
        chroot --userspec="$2:$2" "$1" env -i HOME="$home" USER="$2" LOGNAME="$2" PATH=$path LANG=C.UTF-8 TERM=dumb sh -c "cd && $3"
        exit $?' inside "$root" "$1" "$2" "$FRESH/packages-$release" </dev/null
}

# installed PACKAGE...: put these packages into the root before the newcomer comes.
installed() {
    inside root "DEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND
        apt-get -qq update && apt-get install -y -qq --no-install-recommends --allow-downgrades $*" >>"$log.prepare.log" 2>&1 ||
        { tail -n 20 "$log.prepare.log" >&2; die "cannot prepare $state"; }
}

# clone USER FOLDER: what git has, as a clone of the work tree would be.
clone() {
    user=$1 place=$2
    as_root mkdir -p "$root$place"
    # and runs of other parts that are not committed yet: the pages already have them
    (cd "$TOP" && { git ls-files -z && git ls-files -z --others --exclude-standard results; } | tar --null -T - -cf -) | as_root tar -xf - -C "$root$place" --no-same-owner
    [ "$user" = root ] || inside root "chown -R $user:$user $place"
}

# ann [sudo]: an ordinary user.
ann() {
    inside root "useradd -m -s /bin/bash ann"
    [ "${1:-}" != sudo ] || { installed sudo; echo "ann ALL=(ALL) NOPASSWD: ALL" | as_root tee "$root/etc/sudoers.d/ann" >/dev/null; }
}

# offered PACKAGE: the versions that apt has of it, the newest first.
offered() { inside root "apt-get -qq update && apt-cache madison $1" | awk -F'|' '{ gsub(" ", "", $2); print $2 }'; }

# have PACKAGE: the version that is installed; nothing if none is.
have() { inside root "dpkg-query -W -f='\${db:Status-Status} \${Version}' $1 2>/dev/null || true" | sed -n 's/^installed //p'; }

# expect TEXT COMMAND...: the state fails with this text if the command does.
expect() {
    local text=$1
    shift
    "$@" || { tail -n 25 "$log".*.log >&2; die "$state: $text"; }
}

same() { [ "$1" = "$2" ]; }

# pristine STATE: a copy of the base root of the release that the name begins with.
pristine() {
    state=$1
    release=${state%%-*}
    root=$FRESH/$state
    log=$FRESH/$state
    base "$release"
    mkdir -p "$FRESH/packages-$release/partial"
    as_root rm -rf "$root" "$log".*.log
    as_root cp -a "$FRESH/base/$release" "$root"
}
