#!/bin/sh
# Sends a delivery as GitHub does, signed by OpenSSL. An argument names another server.
set -eu
cd "$(dirname "$0")"
body='{"action":"opened"}'
signature=$(printf %s "$body" | openssl dgst -sha256 -hmac "$(cat secret.key)" | sed 's/.* //')
curl -sS -o /dev/null -w '%{http_code}\n' "${1:-http://127.0.0.1:8080}/hooks/github" \
  -H "X-Hub-Signature-256: sha256=$signature" -H 'X-GitHub-Delivery: 72d3162e' \
  -H 'X-GitHub-Event: issues' -H 'Content-Type: application/json' -d "$body"
