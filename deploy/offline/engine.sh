#!/usr/bin/env bash
# A Docker Engine for `make images` and `make e2e`, where there is none: installed from Debian, started if it does not run.
# Needs root for either. Says why, and ends with 1, when there is none in the end.
set -euo pipefail
log=/var/log/remuda-dockerd.log

missing() {
  command -v dockerd >/dev/null || docker info >/dev/null 2>&1 || echo docker.io iptables
  command -v docker-compose >/dev/null || docker compose version >/dev/null 2>&1 || echo docker-compose
  for command in debootstrap openssl; do command -v "$command" >/dev/null || echo "$command"; done
}

# dockerd outlives this script; with overlay where the file system allows it, else with the driver that always works.
start() {
  setsid nohup dockerd "$@" >"$log" 2>&1 </dev/null &
  local daemon=$!
  for _ in $(seq 100); do
    docker info >/dev/null 2>&1 && return
    kill -0 "$daemon" 2>/dev/null || return 1
    sleep 0.2
  done
  kill "$daemon"
  return 1
}

packages=$(missing)
if [ -n "$packages" ]; then
  [ "$EUID" = 0 ] || { echo "missing: ${packages//$'\n'/ }; install them, or run this as root" >&2; exit 1; }
  echo "installing: ${packages//$'\n'/ }"
  apt-get update -qq
  # shellcheck disable=SC2086
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $packages >/dev/null
fi
docker info >/dev/null 2>&1 && exit
[ "$EUID" = 0 ] || { echo "no Docker Engine runs; start one, or run this as root" >&2; exit 1; }
echo "starting dockerd, log: $log"
start || start --storage-driver=vfs || { echo "dockerd does not start: $(tail -n 3 "$log")" >&2; exit 1; }
