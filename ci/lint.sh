#!/usr/bin/env bash
# ci/lint.sh: look for faults in the Python code with ruff (rules in ruff.toml; installed
# with the lab's other Python packages) and in the shell scripts with shellcheck.
. "$(dirname "$0")/lib.sh"

packages shellcheck
cd "$TOP"
python=()
shell=()
# Without git (an unpacked archive) every file counts.
while IFS= read -r -d '' file; do
    case $file in
        *.py) python+=("$file") ;;
        *) read -r first <"$file" 2>/dev/null || first=
            case $file:$first in *.sh:* | *:'#!'*[/\ ]bash* | *:'#!'*[/\ ]sh*) shell+=("$file") ;; esac ;;
    esac
done < <({ git ls-files -z 2>/dev/null || find . -path ./build -prune -o -type f -print0; } | tr -d '\r')
failed=0
"$TOP/lab/run" lint "${python[@]}" || failed=1
shellcheck --severity=warning "${shell[@]}" || failed=1
[ "$failed" = 0 ] && say "lint: nothing found in ${#python[@]} Python files and ${#shell[@]} shell scripts"
exit "$failed"
