#!/bin/bash
# Golden files are append-only: a committed frame or file is never changed, moved or removed,
# because users' data has the same format. A MANIFEST.toml may gain lines but lose none. The goldens
# of format versions 1 to 7, which were never published, were removed.
#
# Checks the whole history and uncommitted changes.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
    echo "goldens: SKIPPED, $1"
    mkdir -p target
    echo "goldens append-only: SKIPPED, $1" >>target/skips.log
}

if ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    skip "not a git repository"
    exit 0
fi
if [[ $(git rev-parse --is-shallow-repository) == true ]]; then
    skip "a shallow clone has no history (git fetch --unshallow gets it); only its own commits are checked"
fi

# -m: merges too, against each parent.
folders=(tests/golden/v8 tests/golden/v8_reject tests/golden/v5_matrices tests/golden/v5_matrices_reject)
frames=("${folders[@]}" ':(exclude,glob)tests/golden/**/MANIFEST.toml')
manifests=(':(glob)tests/golden/v8*/**/MANIFEST.toml' ':(glob)tests/golden/v5_matrices*/**/MANIFEST.toml')
broken=$(
    git log -m --diff-filter=MDRT --name-status --format= -- "${frames[@]}"
    git diff HEAD --diff-filter=MDRT --name-status -- "${frames[@]}"
    git log -m --numstat --format= -- "${manifests[@]}" | awk '$2 > 0'
    git diff HEAD --numstat -- "${manifests[@]}" | awk '$2 > 0'
)
if [[ -n $broken ]]; then
    echo "goldens: these were changed, moved or removed (for a MANIFEST.toml: lines added and removed)" >&2
    echo "$broken" >&2
    echo "Restore them. A new format version gets new files beside the old ones." >&2
    exit 1
fi
echo "goldens: $(git ls-files -- "${frames[@]}" | wc -l) files, append-only"
