# Runs syslog-ng with a file of messages.

sed "s|http://127.0.0.1:8080|$TOLLGATE_URL|" "$(dirname "$0")/syslog-ng.conf" >syslog-ng.conf
{
  echo '<34>Nov 27 12:39:19 shop-1 order[4711]: the stock is low'
  echo '<13>Nov 27 12:39:20 shop-1 mail: an address with "quotes" and a \ backslash'
} >messages
TZ=UTC exec syslog-ng --foreground --stderr --cfgfile syslog-ng.conf --persist-file persist --pidfile pid --control control
