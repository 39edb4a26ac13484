# Runs collectd.

sed "s|http://127.0.0.1:8080|$TOLLGATE_URL|" "$(dirname "$0")/collectd.conf" >collectd.conf
cat >>collectd.conf <<END
BaseDir "$PWD"
PIDFile "$PWD/pid"
END
exec collectd -f -C collectd.conf
