#!/usr/bin/env bash
# Makes the certificates beside this script anew: a CA, a server and a client that it vouches for, and a CA nobody asked.
set -euo pipefail
cd "$(dirname "$0")"
days=36500

new_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }

new_ca() {
    new_key "$1.key"
    openssl req -new -x509 -days $days -key "$1.key" -subj "/CN=$2" -out "$1.pem" \
        -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign"
}

vouch() {
    new_key "$1.key"
    openssl req -new -key "$1.key" -subj "/CN=$2" |
        openssl x509 -req -days $days -CA ca.pem -CAkey ca.key -CAcreateserial -out "$1.pem" \
            -extfile <(printf 'authorityKeyIdentifier=keyid\n%s\n' "$3")
}

new_ca ca "Test CA"
new_ca other_ca "Another test CA"
vouch server "Test server" "subjectAltName=DNS:localhost,IP:127.0.0.1"
vouch stranger "Another server" "subjectAltName=DNS:elsewhere.example"
vouch client "Test client" "extendedKeyUsage=clientAuth"
openssl pkcs8 -topk8 -v2 aes-256-cbc -in client.key -passout pass:secret -out client_locked.key
rm -f ca.key other_ca.key ca.srl
