#!/bin/sh
# need_rust.sh [COMPONENT...]: checks that cargo is new enough for Cargo.toml's rust-version, and
# that the named components of the toolchain (clippy, rustfmt) are installed.  Installs nothing: the
# machine's owner decides about its Rust toolchain.
set -eu
cd "$(dirname "$0")/.."

needed=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' Cargo.toml)

refuse() {
    echo "$1" >&2
    echo "$2" >&2
    exit 1
}

if ! command -v cargo >/dev/null; then
    if [ -x "$HOME/.cargo/bin/cargo" ]; then
        refuse "cargo is installed in $HOME/.cargo/bin, which is not in your PATH." \
            "Run this, then make again:    . \"$HOME/.cargo/env\""
    fi
    refuse "gridz is written in Rust, and this machine has no cargo. It needs Rust $needed or newer." \
        "Install it with rustup (see https://rustup.rs), open a new shell and run make again."
fi

for tool in cargo rustc; do
    version=$($tool --version | cut -d ' ' -f 2)
    oldest=$(printf '%s\n%s\n' "$needed" "${version%%-*}" | sort -V | head -n 1)
    if [ "$oldest" != "$needed" ]; then
        refuse "$tool is version $version ($(command -v $tool)); gridz needs Rust $needed or newer." \
            "With rustup:    rustup update stable    (a distribution's own Rust may be too old; see https://rustup.rs)"
    fi
done

for component in "$@"; do
    case $component in
    clippy) subcommand=clippy ;;
    rustfmt) subcommand=fmt ;;
    *) refuse "need_rust.sh does not know the component $component" "It knows clippy and rustfmt." ;;
    esac
    cargo "$subcommand" --version >/dev/null 2>&1 ||
        refuse "The Rust toolchain has no $component." "Run this, then make again:    rustup component add $component"
done
