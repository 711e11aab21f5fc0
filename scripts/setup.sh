#!/usr/bin/env bash
# Installs what the build needs on a bare Debian 12. Returns at once if everything is installed.
#   scripts/setup.sh             compiler, libraries, and help2man for the manual pages
#   scripts/setup.sh --programs  the same without help2man
#   scripts/setup.sh --tests     also what tests call: Prometheus, a browser, Go for the chart, dpkg's tools ..
#   scripts/setup.sh --lint      also clang, its sanitizers, clang-format and clang-tidy
set -euo pipefail

packages=(
  ca-certificates ccache cmake git g++ ninja-build pkg-config
  libabsl-dev libboost-dev libgrpc++-dev libprotobuf-dev libssl-dev openssl protobuf-compiler protobuf-compiler-grpc
  prometheus-cpp-dev libhwy-dev libpcre2-dev libutf8proc-dev
  libcli11-dev libcurl4-openssl-dev nlohmann-json3-dev
  libbenchmark-dev libglpk-dev libgmock-dev libgtest-dev
)
case "${1:-}" in
  "") packages+=(help2man) ;;
  --programs) ;;
  --tests)
    packages+=(
      help2man
      adduser dpkg-dev file man-db systemd
      chromium-headless-shell docker-compose golang-go golang-github-masterminds-sprig-dev prometheus
      python3-grpcio python3-jinja2 python3-jsonschema python3-protobuf python3-setuptools python3-venv
      python3-wheel python3-yaml
    ) ;;
  --lint) packages+=(clang clang-format clang-tidy libclang-rt-dev) ;;
  *) echo "usage: scripts/setup.sh [--programs|--tests|--lint]" >&2; exit 2 ;;
esac

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#packages[@]} packages are installed"
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  echo "setup: there is no apt-get here; the build needs Debian 12, or these packages of it: ${missing[*]}." \
    "Elsewhere use a container: docs/installation.md" >&2
  exit 1
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup: run as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -q --no-install-recommends "${missing[@]}"
echo "setup: done"
