#!/bin/bash
# Exits with 0 if the proxy in this container is ready. Bash itself opens the connection, so the image needs
# no curl.
set -euo pipefail
port=${1:-16380}
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf 'GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
read -r -t 2 _ status _ <&3
[ "$status" = 200 ]
