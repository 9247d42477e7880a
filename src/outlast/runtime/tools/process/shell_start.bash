# Sourced by the shell of a command before it runs the command (BASH_ENV). When the shell exits, it writes its folder
# into a file, from which the agent learns where the next command starts. The exit code stays as it is.
unset BASH_ENV
printf -v OUTLAST_FOLDER_FILE %q "$OUTLAST_FOLDER_FILE"
trap "{ trap '' XFSZ; builtin pwd -P >|$OUTLAST_FOLDER_FILE; } 2>/dev/null" EXIT
unset OUTLAST_FOLDER_FILE
