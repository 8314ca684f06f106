#!/usr/bin/env bash
# Decides how a virtual environment comes to be: setup_venv.sh PYTHON FOLDER
# Systems that split Python up may lack ensurepip, which `venv` needs; then pip of PYTHON itself
# puts pip into the new environment.
set -euo pipefail
python=$1
folder=$2

if ! command -v "$python" >/dev/null; then
  echo "setup: no '$python' here; install Python 3.10 or later, or say: make PYTHON=/path/to/python3" >&2
  exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
  echo "setup: $("$python" --version) is too old; Glasshouse needs Python 3.10 or later." >&2
  echo "       Say which one to take: make PYTHON=/path/to/python3" >&2
  exit 1
fi
if [ -x "$folder/bin/python" ] && "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
  exit 0
fi

echo "setup: making $folder with $("$python" --version)"
if ! "$python" -m venv "$folder" >/dev/null 2>&1; then
  rm -rf "$folder"
  if ! { "$python" -m venv --without-pip "$folder" &&
    "$python" -m pip --python "$folder/bin/python" install -q pip; }; then
    rm -rf "$folder"
    echo "setup: cannot make a virtual environment; on Debian or Ubuntu: apt-get install python3-venv" >&2
    exit 1
  fi
fi
