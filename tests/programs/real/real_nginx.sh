#!/bin/bash
# nginx: two workers serve files, plain and compressed, and reload.
set -u
# shellcheck source=/dev/null
. "$TOP/tests/programs/real/real.inc"
nginx=$(PATH=$PATH:/usr/sbin command -v nginx) || { echo "no nginx"; exit 77; }
need perl
# Older versions have no option for errors before the configuration is read.
early=(-e errors)
"$nginx" -h 2>&1 | grep -q -e '-e filename' || early=()
chmod 755 "$TMP"
cat >get.pl <<'END'
use IO::Socket::UNIX;
for my $i (1 .. $ARGV[1]) {
	for my $path ('/a', '/b', '/big', '/none') {
		my $s = IO::Socket::UNIX->new($ARGV[0]) or die "connect: $!";
		print $s "GET $path HTTP/1.0\r\nAccept-Encoding: ",
		    $i % 2 ? 'gzip' : 'none', "\r\n\r\n";
		local $/;
		my $answer = <$s>;
		my ($head, $body) = split /\r\n\r\n/, $answer, 2;
		$head =~ /^HTTP\S+ (\d+)/;
		print "$path $1 ", length $body, ' ',
		    unpack('%32C*', $body), "\n";
	}
}
END
run() {
	local status

	mkdir -p root
	echo hello >root/a
	seq 1 3000 >root/b
	seq 1 200000 >root/big
	cat >conf <<END
worker_processes 2;
daemon off;
pid $PWD/pid;
error_log $PWD/errors;
$([ "$(id -u)" != 0 ] || echo 'user root;')
events { worker_connections 100; }
http {
	access_log off;
	gzip on; gzip_types *; gzip_min_length 20;
	client_body_temp_path $PWD/t1; proxy_temp_path $PWD/t2;
	fastcgi_temp_path $PWD/t3; uwsgi_temp_path $PWD/t4; scgi_temp_path $PWD/t5;
	server { listen unix:$PWD/s; root $PWD/root; }
}
END
	exec_with "$1" "$nginx" -p "$PWD" -c "$PWD/conf" "${early[@]}" &
	local pid=$!
	until [ -S s ] || ! kill -0 "$pid" 2>/dev/null; do
		sleep 0.05
	done
	[ "$1" = none ] || really "$pid" || echo "not on our malloc"
	perl ../get.pl s "${NGINX_ROUNDS:-20}"
	kill -HUP "$pid"
	sleep 0.3
	perl ../get.pl s 4
	kill -QUIT "$pid"
	wait "$pid"
	status=$?
	grep -E 'alert|emerg|signal 6|signal 11' errors
	return $status
}
in_each run
