#!/bin/sh
# A broker by itself, at port 9092. It is told by its environment:
#   ADVERTISED  where clients outside reach that port (default localhost:9092)
# Groups wait for nobody to join, as in tests; --rebalance-delay says otherwise.
set -eu
: "${ADVERTISED:=localhost:9092}"
settings=$(mktemp)
cat >"$settings" <<SETTINGS
[listener]
host = "0.0.0.0"
port = 9092
advertised_host = "${ADVERTISED%:*}"
advertised_port = ${ADVERTISED##*:}
[groups]
group_initial_rebalance_delay_ms = 0
SETTINGS
exec python3 -c "from herdproof.cli import app; app(prog_name='herdproof')" \
  broker --config "$settings" "$@"
