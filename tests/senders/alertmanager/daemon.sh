# Runs Alertmanager, and raises an alert.

sed "s|http://127.0.0.1:8080|$TOLLGATE_URL|" "$(dirname "$0")/alertmanager.yml" >alertmanager.yml
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >alerts.json <<'END'
[{
  "labels": { "alertname": "DiskFull", "machine": "shop-1" },
  "annotations": { "summary": "97 % used" },
  "startsAt": "2026-11-27T12:39:19Z"
}]
END
alerts="http://127.0.0.1:$port/api/v2/alerts"
curl --silent --retry 60 --retry-delay 1 --retry-connrefused --json @alerts.json "$alerts" &
exec prometheus-alertmanager --config.file=alertmanager.yml --storage.path=data --log.level=error \
  --web.listen-address="127.0.0.1:$port" --cluster.listen-address=
