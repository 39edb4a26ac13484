SELECT receiver, alert, status, started, ended, labels, annotations FROM alerts
