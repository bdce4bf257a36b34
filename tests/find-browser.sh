#!/bin/sh
# Finds the browser that the tests of the pages drive, or installs Debian's where that is possible without asking.
for name in "$ASSAY_CHROMIUM" chromium chromium-browser google-chrome; do
	[ -n "$name" ] && command -v "$name" >/dev/null && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo 'Installing Chromium for the tests of the pages'
	apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null && exit 0
fi
echo 'No Chromium was found, so the tests of the pages are skipped. Install it (Debian: apt install chromium),' >&2
echo 'or name one: make test ASSAY_CHROMIUM=/path/to/chrome' >&2
exit 1
