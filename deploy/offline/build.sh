#!/usr/bin/env bash
# Builds every image without a container registry: build.sh [SERVICE...]. The base is a Debian made with debootstrap, the
# Python packages are those that requirements.lock and requirements-extras.lock name, fetched by the pip of this machine as
# it is configured. Both are kept in deploy/offline/cache. Needs root (debootstrap), docker, and .venv (`make .venv/.runs`).
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=$PWD/deploy/offline/cache
tag=${TAG:-latest}
base=remuda/base:bookworm
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
services=("${@:-}")
[ -n "${services[0]}" ] || services=(nats core rmproxy config events archive grpc kubernetes resmgr web cli)
export DOCKER_BUILDKIT=0 # BuildKit wants a frontend from a registry; the classic builder does all that is needed here
mkdir -p "$cache"

make_base() {
  local root
  root=$(mktemp -d)
  debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$root" "$mirror" >"$cache/debootstrap.log" 2>&1 \
    || { tail -n 5 "$cache/debootstrap.log" >&2; exit 1; }
  rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale,info}/* "$root"/var/log/*
  tar -C "$root" -c . | docker import - "$base" >/dev/null
  rm -rf "$root"
}

fetch_wheels() {
  local stamp=$cache/lock.sha256
  if ! sha256sum --check --status "$stamp" 2>/dev/null; then
    rm -rf "$cache/locked"
    for lock in requirements.lock requirements-extras.lock; do
      .venv/bin/python -m pip wheel -qq --disable-pip-version-check --require-hashes --no-deps -r $lock -w "$cache/locked"
    done
    sha256sum requirements.lock requirements-extras.lock >"$stamp"
  fi
}

# The context: the scripts of the image as git has them, and the wheels, our own among them.
make_context() {
  context=$(mktemp -d)
  trap 'rm -rf "$context"' EXIT
  git ls-files -z -- deploy .dockerignore | xargs -0 cp --parents -t "$context"
  cp -r "$cache/locked" "$context/wheels"
  .venv/bin/python -m hatchling build -t wheel -d "$context/wheels" 2>/dev/null
}

docker image inspect "$base" >/dev/null 2>&1 || { echo "base image"; make_base; }
echo "wheels"
fetch_wheels
make_context
for service in "${services[@]}"; do
  docker build --quiet --network none --build-arg BASE="$base" --build-arg SERVICE="$service" \
    --build-arg INSTALL="$([ "$service" = nats ] && echo nats || echo remuda)" \
    -f deploy/Dockerfile -t "remuda/$service:$tag" "$context" >/dev/null 2>"$cache/build.log" || { cat "$cache/build.log" >&2; exit 1; }
  echo "remuda/$service:$tag  $(docker image inspect -f '{{.Size}}' "remuda/$service:$tag" | numfmt --to=iec)"
done
