#!/usr/bin/env bash
# Makes a root folder with the program of a build folder and all that it needs to run: packaging/rootfs.sh BUILD_DIR FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "$1")
mkdir -p "$2"
root=$(realpath "$2")
umask 022
install -d "$root/usr/bin" "$root/etc/ssl/certs" "$root/etc/penstock" "$root/var/lib/penstock" "$root/tmp"
install -m 755 "$build/penstock" "$root/usr/bin/penstock"
strip "$root/usr/bin/penstock"
# Each library and the program interpreter lie where this machine has them.
ldd "$build/penstock" | sed -nE 's/.*=> (\/[^ ]+) .*/\1/p; s/^[[:space:]]+(\/[^ ]+) .*/\1/p' | while read -r library; do
  install -D -m 755 "$(realpath "$library")" "$root$library"
done
install -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
mkdir -p "$root/usr/lib/ssl"
ln -sfn /etc/ssl/certs/ca-certificates.crt "$root/usr/lib/ssl/cert.pem"
printf 'root:x:0:0::/:/usr/bin/penstock\npenstock:x:65532:65532::/var/lib/penstock:/usr/bin/penstock\n' >"$root/etc/passwd"
printf 'root:x:0:\npenstock:x:65532:\n' >"$root/etc/group"
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
# The program runs as any user, and a new volume takes over the mode of the folder at which it is mounted.
chmod 1777 "$root/tmp" "$root/var/lib/penstock"
