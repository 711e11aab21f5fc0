#!/bin/bash
# The image's HEALTHCHECK: does a verifier or a drafter of this container answer at its metrics port? With
# --metrics on other ports than the programs' own, give those: docker run --health-cmd "outrider-healthcheck 9000".
# Kubernetes ignores it: the manifests have probes.
if (($# == 0)); then set -- 7301 7302; fi
for port in "$@"; do
  # In a subshell, which a refused connection ends.
  (
    exec 3<>"/dev/tcp/127.0.0.1/$port" || exit 1
    printf 'GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
    read -r -t 4 line <&3 && [[ $line == "HTTP/1."?" 200"* ]]
  ) 2>/dev/null && exit 0
done
echo "no metrics at the ports $*" >&2
exit 1
