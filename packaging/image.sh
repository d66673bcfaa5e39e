#!/usr/bin/env bash
# Makes an OCI archive of the program of a build folder, without a container engine: packaging/image.sh BUILD_DIR OUT_DIR
# The archive has one layer. `skopeo copy oci-archive:FILE docker://…`, `podman load` and `ctr images import` read it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
out=$2
version=$(sed -nE 's/^project\(penstock VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
command -v umoci >/dev/null || { echo "image: umoci is missing; make setup installs it" >&2; exit 1; }
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
packaging/rootfs.sh "$build" "$work/root"
find "$work/root" -print0 | xargs -0 touch --no-dereference --date="@$epoch"
image=$work/oci:$version
umoci init --layout "$work/oci"
umoci new --image "$image"
umoci insert --rootless --image "$image" "$work/root" /
umoci config --image "$image" --config.user 65532:65532 --config.entrypoint /usr/bin/penstock --config.workingdir /var/lib/penstock \
  --config.exposedports 8000/tcp --config.exposedports 8081/tcp --config.label "org.opencontainers.image.title=penstock" \
  --config.label "org.opencontainers.image.version=$version"
umoci gc --layout "$work/oci"
mkdir -p "$out"
file=$out/penstock-$version.oci.tar
tar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner -C "$work/oci" -cf "$file" .
echo "$file"
