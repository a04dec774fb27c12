#!/bin/sh
# A CA for tests, and certificates that it signs: make-ca.sh DIRECTORY [DAYS [NAME...]]. `server` is for the NATS servers and
# `grpc` for the gRPC front ends, `resmgr` for resource managers of Peloton and `client-placement` for their engines,
# `extender` for the front end for Kubernetes; each NAME is a client of one of them, such as an rmID, a job manager or
# `default-scheduler`. Existing files stay.
# In production, certificates come from your own CA; the files have the same names.
set -eu
umask 077
directory=$1 days=${2:-365}
shift
[ $# = 0 ] || shift
mkdir -p "$directory"
cd "$directory"
key="ec -pkeyopt ec_paramgen_curve:prime256v1"
# Each certificate has its key usage and its issuer's key: clients in Python 3.13 refuse certificates without them.
[ -f ca.pem ] || openssl req -x509 -newkey $key -nodes -days 3650 -subj "/CN=remuda test CA" \
  -addext "keyUsage=critical,keyCertSign,cRLSign" -keyout ca.key -out ca.pem 2>/dev/null

# certificate FILE SUBJECT NAMES
certificate() {
  [ ! -f "$1.pem" ] || return 0
  openssl req -newkey $key -nodes -subj "/CN=$2" -keyout "$1.key" -out "$1.csr" 2>/dev/null
  {
    echo "subjectAltName=$3"
    echo "basicConstraints=CA:false"
    echo "keyUsage=critical,digitalSignature"
    echo "extendedKeyUsage=serverAuth,clientAuth"
    echo "subjectKeyIdentifier=hash"
    echo "authorityKeyIdentifier=keyid"
  } > "$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -days "$days" -extfile "$1.ext" -out "$1.pem" 2>/dev/null
  rm "$1.csr" "$1.ext"
  chmod 644 ca.pem "$1.pem"
}

names="DNS:localhost,IP:127.0.0.1,DNS:nats,DNS:nats-1,DNS:nats-2,DNS:nats-3"
names="$names,DNS:nats-1.nats,DNS:nats-2.nats,DNS:nats-0.nats,DNS:nats.remuda.svc,DNS:*.nats.remuda.svc.cluster.local"
certificate server nats "$names"
certificate grpc grpc "DNS:localhost,IP:127.0.0.1,DNS:grpc,DNS:grpc-1,DNS:grpc-2,DNS:grpc.remuda.svc,DNS:grpc.remuda.svc.cluster.local"
certificate resmgr resmgr "DNS:localhost,IP:127.0.0.1,DNS:resmgr,DNS:resmgr-1,DNS:resmgr-2,DNS:resmgr.remuda.svc,DNS:resmgr.remuda.svc.cluster.local"
certificate extender extender "DNS:localhost,IP:127.0.0.1,DNS:remuda-extender.remuda.svc"
for name in placement "$@"; do
  certificate "client-$name" "$name" "DNS:$name"
done
