#!/usr/bin/env bash
# Nginx: build, then serve and store files: sendfile, aio, ranges, PUT and MOVE through DAV with
# temporary files, log rotation, a cache on disk.
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/common.sh"

need gcc make libc6-dev libpcre3-dev zlib1g-dev libssl-dev curl
unpack nginx nginx
cd nginx
step build
root=$BUILD/root
./configure --prefix="$root" --with-threads --with-file-aio --with-http_ssl_module \
    --with-http_dav_module --with-http_gzip_static_module --with-http_sub_module
make -j2
make install

step serve
port=18431
while (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null; do port=$((port + 2)); done
cat >"$root/conf/nginx.conf" <<END
user root;
worker_processes 2;
pid $root/logs/nginx.pid;
error_log $root/logs/error.log;
events { worker_connections 64; }
http {
    access_log $root/logs/access.log;
    sendfile on;
    proxy_cache_path $root/cache levels=1:2 keys_zone=kept:1m;
    server {
        listen 127.0.0.1:$port;
        root $root/html;
        location /store { dav_methods PUT DELETE MKCOL COPY MOVE; create_full_put_path on;
            client_max_body_size 100m; client_body_buffer_size 16k; }
        location /direct { alias $root/html; sendfile off; aio threads; directio 1m; }
    }
    server {
        listen 127.0.0.1:$((port + 1));
        location / { proxy_pass http://127.0.0.1:$port; proxy_cache kept;
            proxy_cache_valid any 1h; add_header X-Kept \$upstream_cache_status; }
    }
}
END
head -c 20000003 /dev/urandom >"$root/html/big"
for n in $(seq 300); do printf 'file %s\n' "$n" >"$root/html/small$n"; done
"$root/sbin/nginx"
trap '"$root/sbin/nginx" -s quit || true' EXIT
at=http://127.0.0.1:$port
get() { curl --silent --show-error --fail "$@"; }
same() { cmp - "$1" || die "$2"; }

get "$at/big" | same "$root/html/big" "a file served by sendfile differs"
get "$at/direct/big" | same "$root/html/big" "a file read by threads and O_DIRECT differs"
get --range 1234567-7654321 "$at/big" |
    same <(tail -c +1234568 "$root/html/big" | head -c 6419755) "a range differs"
for n in $(seq 300); do get "$at/small$n"; done >"$SCRATCH/small"
for n in $(seq 300); do printf 'file %s\n' "$n"; done | same "$SCRATCH/small" "small files differ"
get --upload-file "$root/html/big" "$at/store/a/b/big"
get -X MKCOL "$at/store/c/"
get -X COPY -H "Destination: $at/store/c/copy" "$at/store/a/b/big"
get -X MOVE -H "Destination: $at/store/moved" "$at/store/c/copy"
cmp "$root/html/store/moved" "$root/html/big" || die "a stored file differs"
get -X DELETE "$at/store/a/"
[ ! -e "$root/html/store/a" ] || die "DELETE left the tree"
cached() { # STATE: fetches through the cache, which should then say STATE
    get --dump-header "$SCRATCH/head" "http://127.0.0.1:$((port + 1))/big" |
        same "$root/html/big" "a file through the cache differs"
    grep -q "X-Kept: $1" "$SCRATCH/head"
}
cached MISS || die "the cache had what nobody fetched"
# A worker moves the file into the cache after the client has it: the first answers may miss.
for _ in $(seq 20); do
    if cached HIT; then break; fi
    sleep 0.2
done
cached HIT || die "the cache does not keep a file: $(cat "$SCRATCH/head")"
mv "$root/logs/access.log" "$root/logs/access.old"
"$root/sbin/nginx" -s reopen
sleep 1
get "$at/small1" >/dev/null
[ "$(wc -l <"$root/logs/access.log")" = 1 ] || die "the log was not rotated"
"$root/sbin/nginx" -s quit
trap - EXIT
for _ in $(seq 50); do [ -e "$root/logs/nginx.pid" ] || break; sleep 0.1; done
if grep -E '\[(error|crit|alert|emerg)\]' "$root/logs/error.log"; then die "nginx met errors"; fi
note "nginx $version: built; sendfile, aio, ranges, DAV, cache and log rotation ok"
