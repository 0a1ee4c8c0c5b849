// The scripts of the wrappers. They are constant: their input comes as arguments. Descriptor 3 reports a failure before the command starts.

const fail = `fail() { printf '%s' "$1" >&3; exit 128; }`;
const enterControlGroups = `
while [ "$groups" -gt 0 ]; do
  printf '%s' "$$" > "$1" || fail "cannot enter the control group $1"
  groups=$((groups - 1)); shift
done`;
const setHostname = `
if [ -n "$hostname" ]; then printf '%s' "$hostname" > /proc/sys/kernel/hostname || fail "cannot set the host name"; fi`;
const enterDirectory = `
cd "$1" 2>/dev/null || fail "chdir to cwd (\\"$1\\") failed: no such file or directory"
shift`;

/**
 * Prepares a process that is not isolated.
 * MOUNT HOSTNAME GROUPS FILE... MOUNTS (FROM TO ro|rw)... DIRECTORY COMMAND...
 */
export const preparation = `
${fail}
mount=$1; hostname=$2; groups=$3; shift 3
${enterControlGroups}
${setHostname}
mounts=$1; shift
while [ "$mounts" -gt 0 ]; do
  output=$("$mount" --rbind "$1" "$2" 2>&1 3>&-) || fail "cannot mount $1 at $2: $output"
  if [ "$3" = ro ]; then output=$("$mount" -o remount,bind,ro "$2" 2>&1 3>&-) || fail "cannot make the mount at $2 read-only: $output"; fi
  mounts=$((mounts - 1)); shift 3
done
${enterDirectory}
exec 3>&-
exec "$@"
`;

/**
 * Makes the mounts of an isolated container, then runs its command as a child and exits with its exit code. The shell is the first process of
 * the container's process namespace: the kernel ignores signals of the container to it, and kills the container when it exits.
 * MOUNT HOSTNAME GROUPS FILE... FSTAB SENTINEL STAT READONLY PATH... CHECKS (PATH FILE)... DIRECTORY COMMAND...
 */
export const isolatedPreparation = `
${fail}
mount=$1; hostname=$2; groups=$3; shift 3
${enterControlGroups}
${setHostname}
sentinel=$2; stat=$3
output=$("$mount" -n -a -T "$1" 2>&1 3>&-) || fail "cannot make the mounts of the container: $output"
readonly=$4; shift 4
while [ "$readonly" -gt 0 ]; do
  output=$("$mount" -n -o remount,bind,ro "$1" 2>&1 3>&-) || fail "cannot make $1 read-only: $output"
  readonly=$((readonly - 1)); shift
done
checks=$1; shift
while [ "$checks" -gt 0 ]; do
  [ "$("$stat" -c %d:%i -- "$1" 2>&1 3>&-)" = "$2" ] || fail "the volume at $1 changed while it was mounted"
  checks=$((checks - 1)); shift 2
done
[ ! -e "$sentinel" ] || fail "the data directory is visible after it was covered"
${enterDirectory}
exec 4>&2 2>/dev/null
"$@" 2>&4 4>&-
exit $?
`;

/** Prepares a process that joins an isolated container: enters control groups, which are not visible in the container. GROUPS FILE... COMMAND... */
export const joinControlGroups = `
${fail}
groups=$1; shift
${enterControlGroups}
exec "$@"
`;

/** Changes the directory inside the container. DIRECTORY COMMAND... */
export const joinDirectory = `
${fail}
${enterDirectory}
exec "$@"
`;

/** What the wrapper of an isolated container reports when the command starts. Its shell keeps descriptor 3 open, so the end shows nothing. */
export const startedReport = 'started';
/** Ends the report. It runs with the privileges of the container, directly before the command. */
export const endReport = `printf ${startedReport} >&3; exec 3>&-; exec "$@"`;

/**
 * The script that `script` runs on its terminal. `script` takes a command only as text, so the words of the command are passed in the
 * environment; the only thing that is evaluated as text here is a counter.
 */
export const terminalScript =
  'i=0; set --; while [ "$i" -lt "$OARLOCK_WORDS" ]; do eval "set -- \\"\\$@\\" \\"\\$OARLOCK_WORD_$i\\"; unset OARLOCK_WORD_$i"; i=$((i + 1)); done; unset OARLOCK_WORDS i; exec "$@"';
