# Sends requests by `openssl s_client`: both versions of TLS, with and without a certificate, and a resumed session.
ask() { # VERSION PATH OUTPUT ARGUMENTS...
  local version=$1 path=$2 output=$3
  shift 3
  # `-ign_eof` keeps the connection open until the server ends it.
  printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' "$path" |
    openssl s_client -connect "${TOLLGATE_URL#https://}" "-tls$version" -servername localhost -alpn h2,http/1.1 \
      -CAfile "$TOLLGATE_FOLDER/data/tls/local-ca.pem" -verify_return_error -verify_hostname localhost \
      -ign_eof "$@" >"$output" 2>&1 || { cat "$output"; exit 1; }
  for line in 'ALPN protocol: http/1.1' 'HTTP/1.1 200 OK' '^hello'; do
    grep -q "$line" "$output" || { echo "no line $line"; cat "$output"; exit 1; }
  done
}

for version in 1_2 1_3; do
  for name in certificate none; do
    certificate=()
    [ $name = none ] || certificate=(-cert "$TOLLGATE_FOLDER/client.pem" -key "$TOLLGATE_FOLDER/client.key")
    session=session-$version-$name
    ask $version /openssl/$name first "${certificate[@]}" -sess_out "$session"
    grep -q '^New, ' first
    ask $version /openssl/$name second "${certificate[@]}" -sess_in "$session"
    grep -q '^Reused, ' second || { cat second; exit 1; }
  done
done
