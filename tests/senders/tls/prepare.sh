# Makes the certificate of the server by `tollgate cert local`, and an authority with the certificate of a client.
"$TOLLGATE" cert local >/dev/null
new="req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
openssl $new -subj "/CN=client authority" -keyout client-ca.key -out client-ca.pem 2>/dev/null
openssl $new -CA client-ca.pem -CAkey client-ca.key -subj /CN=sender -addext basicConstraints=critical,CA:FALSE \
  -addext subjectAltName=DNS:sender -addext extendedKeyUsage=clientAuth -keyout client.key -out client.pem 2>/dev/null
