#!/usr/bin/env bash
# Installs third-party clients and tools that are not in Debian, for Clients.*, Deploy.dashboard,
# Deploy.helm, Deploy.quickstart, Examples.openai and PythonClient.*: a virtual environment in
# build/clients with tests/requirements.txt and tests/tools.txt, from the package index that pip is
# configured for. The last line is its interpreter, for scripts/test.sh:
#   OUTRIDER_TEST_PYTHON=$(scripts/clients.sh) scripts/test.sh
# Returns at once if everything is installed. Takes 1.2 GB and a minute of CPU.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=build/clients
wanted=$(cat tests/requirements.txt tests/tools.txt tests/constraints.txt)
if [[ -x $folder/bin/python && $(cat "$folder/installed" 2>/dev/null) == "$wanted" ]]; then
  echo "$PWD/$folder/bin/python"
  exit 0
fi

fail() {
  echo "clients: $1; the tests that need these packages will be skipped" >&2
  exit 1
}
rm -rf "$folder"
echo "clients: installing tests/requirements.txt in $folder" >&2
/usr/bin/python3 -m venv "$folder" >&2 || fail "no virtual environment (Debian: python3-venv)"
# Most of it is never imported, and compiling everything would take as long as installing it.
install() {
  timeout 300 "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --retries 2 --timeout 30 \
    --no-compile "$@" >&2
}
install -r tests/requirements.txt || fail "pip could not install tests/requirements.txt"
install --no-deps -r tests/tools.txt || fail "pip could not install tests/tools.txt"
printf '%s\n' "$wanted" >"$folder/installed"
echo "$PWD/$folder/bin/python"
