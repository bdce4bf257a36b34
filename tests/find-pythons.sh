#!/bin/sh
# Prints the path of one interpreter for each Python from 3.11 on that this machine has: on the search path, or installed by pyenv or uv.
# A name on the search path may be a stub without an interpreter behind it, so each one has to start.
folders=$(printf '%s' "$PATH" | tr ':' ' ')
for minor in 11 12 13 14 15 16 17 18 19; do
	for folder in $folders "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.$minor.*/bin "${UV_PYTHON_INSTALL_DIR:-$HOME/.local/share/uv/python}"/cpython-3.$minor.*/bin; do
		python=$folder/python3.$minor
		if [ -x "$python" ] && "$python" -c 'import venv' 2>/dev/null; then
			echo "$python"
			break
		fi
	done
done
