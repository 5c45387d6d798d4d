#!/bin/sh
# Makes the certificates of the TLS tests anew: one authority, one server for 127.0.0.1 and localhost, one client.
set -eu
cd "$(dirname "$0")"
days=36500

key() { openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$1.key"; }
sign() {
    key "$1"
    openssl req -new -key "$1.key" -subj "/O=pyspark_rocketmq tests/CN=$1" -out "$1.csr"
    printf '%s\n' "$2" >"$1.ext"
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days "$days" -extfile "$1.ext" -out "$1.pem"
    rm "$1.csr" "$1.ext"
}

key ca
openssl req -x509 -new -key ca.key -subj "/O=pyspark_rocketmq tests/CN=authority" -days "$days" -out ca.pem
sign server "subjectAltName=DNS:localhost,IP:127.0.0.1"
sign client "extendedKeyUsage=clientAuth"
rm ca.key ca.srl
