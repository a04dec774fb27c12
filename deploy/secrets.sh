#!/bin/sh
# secrets.sh [RM...]: creates the keys and certificates of the stack of compose.yaml in deploy/secrets: a test CA, a
# certificates for servers and for clients of Peloton, a key for each role, for the example operator alice of the group ops, for the demo's
# resource manager and for each RM named, and the password of Grafana's user admin. Existing files stay, so it can be run again.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets saved
./tls/make-ca.sh secrets/tls 365 jobmgr hostmgr respool
user=${REMUDA_UID:-10001}:${REMUDA_GID:-10001}
mkdir -p secrets/keys
# The containers run as that user; no other user needs to read these files.
give() { [ "$(id -u)" != 0 ] || chown -R "$user" secrets saved; }
give
remuda() { docker run --rm --network none --user "$user" -v "$PWD/secrets:/secrets" "remuda/cli:${TAG:-latest}" "$@"; }
remuda keys /secrets/keys
[ -f secrets/keys/operators/alice.pub ] || remuda operator add alice --groups ops --keys /secrets/keys
for rm in demo "$@"; do
  [ -f "secrets/keys/rms/$(printf %s "$rm" | tr : =).pub" ] || remuda rm add "$rm" --keys /secrets/keys
done
[ -f secrets/grafana ] || head -c 18 /dev/urandom | base64 > secrets/grafana
chmod 755 secrets secrets/keys secrets/keys/server
give
