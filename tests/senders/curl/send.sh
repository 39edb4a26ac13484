# Sends events and files in the ways of curl's manual.

send() {
  curl --silent --show-error --fail --output /dev/null "$@"
}

# With `-d` the type is application/x-www-form-urlencoded, whatever the data.
send -d '{"kind":"data","value":1}' "$TOLLGATE_URL/events"
send --json '{"kind":"json","value":2}' "$TOLLGATE_URL/events"

# `--data-binary` keeps the line ends.
printf '{"kind":"lines","value":3}\n{"kind":"lines","value":4}\n' >events.ndjson
send --data-binary @events.ndjson -H 'Content-Type: application/x-ndjson' "$TOLLGATE_URL/events"

# curl does not compress a body. Another program can compress it.
gzip -c events.ndjson | send --data-binary @- -H 'Content-Encoding: gzip' "$TOLLGATE_URL/events"

# Input whose length is not known is sent in chunks. `-T` sends PUT unless `-X` names another method.
send -X POST -T - "$TOLLGATE_URL/events" <events.ndjson

# A form with a field and a file.
printf 'a report' >report.txt
send -F note=draft -F file=@report.txt "$TOLLGATE_URL/forms"

# A file. Above 1 MiB curl sends the head first and waits for `100 Continue`.
send -T report.txt "$TOLLGATE_URL/files/report.txt"
head -c 1500000 /dev/zero >zeros
send -T zeros "$TOLLGATE_URL/files/"
