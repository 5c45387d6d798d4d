#!/bin/sh
# Make the virtual environment DIR with the first Python 3.11 or newer, or fail and name what is missing.
# Usage: tools/make_venv.sh DIR [PYTHON]
set -eu

dir=$1
candidates=${2:-python3 python3.14 python3.13 python3.12 python3.11}

fail() {
    echo "setup: $1" >&2
    exit 1
}

for candidate in $candidates; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then
        python=$candidate
        break
    fi
done
[ -n "${python:-}" ] || fail "needs Python 3.11 or newer, tried: $candidates; install it or name it with PYTHON=/path/to/python3"

"$python" -c 'import ensurepip, venv' 2> /dev/null ||
    fail "$python cannot make virtual environments; install its venv package (Debian and Ubuntu: apt install python3-venv)"

echo "==> making $dir with $("$python" --version)"
"$python" -m venv "$dir"
