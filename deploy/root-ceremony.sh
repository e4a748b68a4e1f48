#!/usr/bin/env bash
# The root's key goes offline, and comes back for as long as it is needed.
# Usage: root-ceremony.sh away CA_DIRECTORY MEDIUM MEDIUM   copy root.key to two mounted media, compare, remove it here
#        root-ceremony.sh back CA_DIRECTORY MEDIUM          bring it back to sign something
#        root-ceremony.sh check MEDIUM ROOT_CERTIFICATE     tell whether a medium holds the key of root.pem
# Each copy lies as fleet-root/root.key (0600) with root.pem and SHA256SUMS beside it. Exit 1: refused, and nothing is lost.
set -euo pipefail
umask 077

stop() { printf 'root-ceremony: %s\n' "$*" >&2; exit 1; }
public_of() { openssl pkey -in "$1" -pubout -outform DER 2>/dev/null | sha256sum | cut -d' ' -f1; }
certified() { openssl x509 -in "$1" -noout -pubkey 2>/dev/null | openssl pkey -pubin -outform DER 2>/dev/null | sha256sum | cut -d' ' -f1; }

check() { # MEDIUM ROOT_CERTIFICATE
    local folder=$1/fleet-root
    [ -f "$folder/root.key" ] || stop "$folder/root.key is not there"
    (cd "$folder" && sha256sum --quiet --check SHA256SUMS) || stop "$folder is damaged: use the other medium, and replace this one"
    [ "$(public_of "$folder/root.key")" = "$(certified "$2")" ] || stop "$folder/root.key is not the key of $2"
}

copy() { # CA_DIRECTORY MEDIUM
    local folder=$2/fleet-root
    [ -d "$2" ] || stop "$2 is no directory: mount the medium there"
    if [ -e "$folder/root.key" ]; then
        cmp -s "$1/root.key" "$folder/root.key" || stop "$folder holds another key: it is not overwritten"
    fi
    mkdir -p "$folder"
    install -m 600 "$1/root.key" "$folder/root.key"
    install -m 644 "$1/root.pem" "$folder/root.pem"
    (cd "$folder" && sha256sum root.key root.pem >SHA256SUMS)
    sync "$folder/root.key" "$folder/root.pem" "$folder/SHA256SUMS" "$folder"
    check "$2" "$1/root.pem"
    echo "copied and compared: $folder"
}

away() { # CA_DIRECTORY MEDIUM MEDIUM
    [ -f "$1/root.key" ] || stop "$1/root.key is not here: nothing to take away"
    [ "$(public_of "$1/root.key")" = "$(certified "$1/root.pem")" ] || stop "$1/root.key is not the key of $1/root.pem"
    [ "$(realpath "$2")" != "$(realpath "$3")" ] || stop "both media are the same: a second copy needs a second medium"
    copy "$1" "$2"
    copy "$1" "$3"
    # Overwriting reaches the old blocks on few file systems only; a key made in memory (tmpfs) leaves none.
    shred --remove "$1/root.key"
    sync "$1"
    echo "removed: $1/root.key. Unmount both media and keep them apart."
}

back() { # CA_DIRECTORY MEDIUM
    [ ! -e "$1/root.key" ] || stop "$1/root.key is here already"
    check "$2" "$1/root.pem"
    install -m 600 "$2/fleet-root/root.key" "$1/.root.key.new"
    sync "$1/.root.key.new"
    mv -n "$1/.root.key.new" "$1/root.key"
    echo "here until you take it away again: $1/root.key"
}

case "${1:-}:$#" in
    away:4) away "$2" "$3" "$4" ;;
    back:3) back "$2" "$3" ;;
    check:3) check "$2" "$3" && echo "good: $2/fleet-root" ;;
    *) sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
