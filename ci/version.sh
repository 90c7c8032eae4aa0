#!/usr/bin/env bash
# ci/version.sh NEW: make NEW (such as 0.9.0) the version of everything.  META.json has the
# version, and this script writes it into the files that repeat it, which a test compares:
# control files, scripts of CREATE EXTENSION, the libraries, the packages, the lab and
# CHANGELOG.md.  An extension's version has two numbers, so it changes only with these.
#
# If the old version has a tag, it has been released: its scripts are kept and copied for
# the new version, for which sql/EXTENSION--OLD--NEW.sql is still to be written.  Otherwise
# they are renamed.  Changes are made in the work tree; nothing is committed.
. "$(dirname "$0")/lib.sh"

[[ ${1:-} =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || die "usage: ci/version.sh NEW, such as 0.9.0"
cd "$TOP"
new=$1
old=$(sed -n 's/^  "version": "\(.*\)",/\1/p' META.json)
[ "$new" != "$old" ] || { say "the version is $new already"; exit 0; }
short_new=${new%.*}
short_old=${old%.*}
released=$(git tag --list "v$old")

# literally TEXT: as a pattern of sed.
literally() { sed 's/[.]/\\./g' <<<"$1"; }
o=$(literally "$old")
so=$(literally "$short_old")

if [ "$short_new" != "$short_old" ]; then
    for script in */sql/*--"$short_old".sql; do
        name=${script%--*}
        if [ -n "$released" ]; then
            cp "$script" "$name--$short_new.sql"
            git add "$name--$short_new.sql"
            say "to be written: $name--$short_old--$short_new.sql"
        else git mv "$script" "$name--$short_new.sql"; fi
        sed -i "1s/--$so\.sql/--$short_new.sql/" "$name--$short_new.sql"
    done
    # Tests, META.json and whatever else names a script.
    git grep -lIE -- "--$so\.sql" -- ':!results' ':!*/sql/*' | while IFS= read -r file; do sed -i "s/--$so\.sql/--$short_new.sql/g" "$file"; done
fi
sed -i "s/^default_version = '$so'/default_version = '$short_new'/" */*.control
sed -i "/meta-spec/!s/\"version\": \"$o\"/\"version\": \"$new\"/" META.json
sed -i "s/^#define PG_LEAN_VERSION \"$o\"/#define PG_LEAN_VERSION \"$new\"/" common/compat_module.h
sed -i "s/^version = \"$so\"/version = \"$short_new\"/" lab/pyproject.toml
sed -i "s/^__version__ = \"$so\"/__version__ = \"$short_new\"/" lab/pg_lean/__init__.py
sed -i "s/^\(Version: *\)$o\$/\1$new/" rpm/pg_lean.spec
if [ -n "$released" ]; then
    { printf 'pg-lean (%s-1) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- the pg_lean authors <pg_lean@localhost.localdomain>  %s\n\n' \
        "$new" "$(date -R)"; cat debian/changelog; } >debian/changelog.new
    mv debian/changelog.new debian/changelog
    sed -i "s/^%changelog\$/&\n* $(date '+%a %b %d %Y') the pg_lean authors <pg_lean@localhost.localdomain> - $new-1\n- See CHANGELOG.md.\n/" rpm/pg_lean.spec
    sed -i "1,/^## /s/^## .*/## $short_new (unreleased)\n\n&/" CHANGELOG.md
else
    sed -i "1s/($o-/($new-/" debian/changelog
    sed -i "s/ - $o-1\$/ - $new-1/" rpm/pg_lean.spec
    sed -i "s/^## $so (unreleased)/## $short_new (unreleased)/" CHANGELOG.md
fi
git diff HEAD --stat
