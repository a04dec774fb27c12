#!/bin/sh
# A CA for tests, and a certificate for the NATS servers: make-ca.sh DIRECTORY [DAYS]. Existing files stay.
# In production, certificates come from your own CA; the files have the same names.
set -eu
umask 077
directory=$1 days=${2:-365}
mkdir -p "$directory"
cd "$directory"
key="ec -pkeyopt ec_paramgen_curve:prime256v1"
# Each certificate has its key usage and its issuer's key: clients in Python 3.13 refuse certificates without them.
[ -f ca.pem ] || openssl req -x509 -newkey $key -nodes -days 3650 -subj "/CN=remuda test CA" \
  -addext "keyUsage=critical,keyCertSign,cRLSign" -keyout ca.key -out ca.pem 2>/dev/null
[ -f server.pem ] && exit 0
names="DNS:localhost,IP:127.0.0.1,DNS:nats,DNS:nats-1,DNS:nats-2,DNS:nats-3"
names="$names,DNS:nats-1.nats,DNS:nats-2.nats,DNS:nats-0.nats,DNS:nats.remuda.svc,DNS:*.nats.remuda.svc.cluster.local"
openssl req -newkey $key -nodes -subj "/CN=nats" -keyout server.key -out server.csr 2>/dev/null
{
  echo "subjectAltName=$names"
  echo "basicConstraints=CA:false"
  echo "keyUsage=critical,digitalSignature"
  echo "extendedKeyUsage=serverAuth,clientAuth"
  echo "subjectKeyIdentifier=hash"
  echo "authorityKeyIdentifier=keyid"
} > server.ext
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -days "$days" -extfile server.ext -out server.pem 2>/dev/null
rm server.csr server.ext
chmod 644 ca.pem server.pem
