#!/bin/sh
# Finds the PostgreSQL that the tests of the shared ledger start, or installs Debian's where that is possible without asking.
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && exit 0
command -v initdb >/dev/null && command -v pg_ctl >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo 'Installing PostgreSQL for the tests of the shared ledger'
	apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null && exit 0
fi
echo 'No PostgreSQL was found, so the tests of the shared ledger are skipped. Install it (Debian: apt install postgresql),' >&2
echo 'or put its initdb and pg_ctl on the path.' >&2
exit 1
