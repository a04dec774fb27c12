#!/usr/bin/env bash
# What meets the network, processes and event loops, in the newest Python of this machine that is newer than python3, if
# there is one: newer.sh PATH...
set -euo pipefail
cd "$(dirname "$0")/../.."

newer_python() {
  local minor python
  for minor in 16 15 14 13 12; do
    python3 -c "import sys; sys.exit(sys.version_info >= (3, $minor))" || return 0
    for python in "python3.$minor" "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor."*/bin/python3; do
      if "$python" -c 'import venv, ensurepip' 2>/dev/null; then
        echo "$python"
        return 0
      fi
    done
  done
}

python=$(newer_python)
if [ -z "$python" ]; then
  echo "skipped: there is no Python newer than $(python3 --version)"
  exit
fi
"$python" --version
make test VENV=.venv-newer PYTHON="$python" WORKERS="${WORKERS:-1}" ARGS="-q -o cache_dir=.pytest_cache/newer $*"
