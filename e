Send-Q
