#!/usr/bin/env bash
# Makes a Debian package of the program of a build folder: packaging/deb.sh BUILD_DIR OUT_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "$1")
out=$2
version=$(sed -nE 's/^project\(penstock VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
maintainer=${MAINTAINER:-Penstock <penstock@example.com>}
architecture=$(dpkg --print-architecture)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH
umask 022

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/debian/penstock
DESTDIR=$root cmake --install "$build" --prefix /usr --strip --component penstock >/dev/null
doc=$root/usr/share/doc/penstock
mkdir -p "$root/DEBIAN" "$doc"
# Debian 12 keeps units in /lib, and licences in the file `copyright`.
mkdir -p "$root/lib"
mv "$root/usr/lib/systemd" "$root/lib/systemd"
rmdir "$root/usr/lib"
rm -r "$root/usr/share/licenses"
{
  printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: penstock\n\n'
  printf 'Files: *\nCopyright: 2026 the authors of Penstock\nLicense: Apache-2.0\n'
  printf ' The full text is in /usr/share/common-licenses/Apache-2.0.\n'
} >"$doc/copyright"
{
  printf 'penstock (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n' "$version"
  printf ' -- %s  %s\n' "$maintainer" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$doc/changelog.gz"
gzip -9nc CHANGELOG.md >"$doc/CHANGELOG.md.gz"
gzip -9n "$root/usr/share/man/man1/penstock.1"

printf 'Source: penstock\n\nPackage: penstock\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O "$root/usr/bin/penstock" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || { echo "deb: dpkg-shlibdeps found no library" >&2; exit 1; }
cat >"$root/DEBIAN/control" <<CONTROL
Package: penstock
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Section: net
Priority: optional
Installed-Size: $(du -k -s --exclude=DEBIAN "$root" | cut -f 1)
Depends: $depends
Recommends: ca-certificates
Description: control plane for LLM inference
 The gateway serves the OpenAI API in front of vLLM, SGLang and other engines,
 and admits and routes requests by token budget, prefix cache and queue. The
 planner sets the number of replicas of the cheapest fleet that meets the SLO.
 Replay runs the same decisions over a recorded trace.
CONTROL
(cd "$root" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
find "$root" -print0 | xargs -0 touch --no-dereference --date="@$SOURCE_DATE_EPOCH"
mkdir -p "$out"
file=$out/penstock_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$file" >/dev/null
echo "$file"
