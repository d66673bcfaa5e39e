#!/usr/bin/env bash
# Installs what building and testing Penstock on Debian 12 needs, and nothing that is there already: a second run needs
# no network and ends at once. As root, or as a user who may use sudo.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  # compiler, build, scripts
  g++ make cmake ninja-build ccache git python3 ca-certificates
  # libraries
  libfmt-dev libspdlog-dev nlohmann-json3-dev libyaml-cpp-dev libsimdjson-dev libexpected-dev libeigen3-dev robin-map-dev
  liblzma-dev libzstd-dev zlib1g-dev libsqlite3-dev libssl-dev libnghttp2-dev libzmq3-dev cppzmq-dev libnats-dev libxxhash-dev
  # tests, benchmarks, tools
  libgtest-dev libgmock-dev libbenchmark-dev librapidcheck-dev xz-utils zstd chromium python3-venv curl openssl
  clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev faketime
  # servers of others that tests run at ports of their own
  nats-server etcd-server
  # packages: .deb and OCI archive
  dpkg-dev umoci
)
# A Node.js from elsewhere brings its own npm, and Debian's would clash with it.
command -v npm >/dev/null || packages+=(nodejs npm)

say() { echo "setup: $*"; }
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    say "cannot install packages: run this as root, or install sudo" >&2
    exit 1
  fi
}

install_packages() {
  local known missing=()
  known=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
  for package in "${packages[@]}"; do
    grep -qxF "installed $package" <<<"$known" || missing+=("$package")
  done
  if [ ${#missing[@]} = 0 ]; then
    say "all ${#packages[@]} Debian packages are installed"
    return
  fi
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
  as_root "${apt[@]}" update
  as_root "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
  # The packages start these servers, and tests start their own.
  command -v systemctl >/dev/null || return 0
  for server in nats-server etcd; do
    case " ${missing[*]} " in *" $server"[-\ ]*) as_root systemctl disable --now --quiet "$server" 2>/dev/null || true ;; esac
  done
}

install_web() {
  local stamp=web/node_modules/.installed-lock.json
  if cmp -s web/package-lock.json "$stamp"; then
    say "web/node_modules is what web/package-lock.json names"
    return
  fi
  say "installing the packages of web/package-lock.json"
  (cd web && npm ci --ignore-scripts)
  cp web/package-lock.json "$stamp"
}

command -v dpkg-query >/dev/null || {
  say "needs Debian 12: dpkg-query was not found; elsewhere, install the equivalents of: ${packages[*]}" >&2
  exit 1
}
install_packages
install_web
