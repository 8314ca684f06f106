#!/usr/bin/env bash
# Decides which Chromium the browser tests drive: prints its path, installing it where that is
# possible without asking; exits 1 with a message where it is not. CHROMIUM=/path overrides.
set -euo pipefail

find_chromium() {
  local name
  for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome google-chrome-stable; do
    if [ -n "$name" ] && command -v "$name"; then return 0; fi
  done
  return 1
}

if find_chromium; then exit 0; fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "browser: no Chromium here; apt-get install chromium" >&2
  # What it recommends is for a desktop (printers, notifications: 60 more packages), but for these two.
  packages="chromium fonts-liberation libgl1-mesa-dri"
  # shellcheck disable=SC2086
  if { apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends $packages; } >&2; then
    if find_chromium; then exit 0; fi
  fi
fi
echo "browser: no Chromium and no way to install it from here, so the browser tests are left out." >&2
echo "         Install Chromium, or set CHROMIUM=/path/to/chrome, to run them." >&2
exit 1
