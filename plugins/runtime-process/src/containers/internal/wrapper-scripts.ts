import { startedReport } from '@oarlock/process-supervisor/containers/launch';

// The scripts of the wrappers. They are constant: their input comes as arguments. Descriptor 3 reports a failure before the command starts.

const fail = `fail() { printf '%s' "$1" >&3; exit 128; }`;
const enterControlGroups = `
while [ "$groups" -gt 0 ]; do
  printf '%s' "$$" > "$1" || fail "cannot enter the control group $1"
  groups=$((groups - 1)); shift
done`;
const setHostname = `
if [ -n "$hostname" ]; then
  if [ -n "$sethostname" ]; then output=$("$sethostname" "$hostname" 2>&1 3>&-) || fail "cannot set the host name: $output"
  else printf '%s' "$hostname" > /proc/sys/kernel/hostname || fail "cannot set the host name"; fi
fi`;
/**
 * Makes the mounts below the new root, then makes it the root. A mount below a volume can land elsewhere if the pod replaces a directory of the
 * volume by a link: the kernel's list must show one mount more at the intended path, and read-only if requested, before another program runs.
 */
const enterView = `
mounts_at() {
  found=0; options=
  while read -r _ _ _ _ point flags _; do
    if [ "$point" = "$1" ]; then found=$((found + 1)); options=$flags; fi
  done < /proc/self/mountinfo
}
output=$("$mount" -n -a -T "$fstab" 2>&1 3>&-) || fail "cannot make the mounts of the container: $output"
nested=$1; shift
while [ "$nested" -gt 0 ]; do
  mounts_at "$4"; before=$found
  output=$("$mount" -n -o "$3" -- "$1" "$2" 2>&1 3>&-) || fail "cannot mount $1 at $2: $output"
  mounts_at "$4"
  [ "$found" -gt "$before" ] || fail "the volume at $2 changed while it was mounted"
  case ",$3,/,$options," in *,ro,*/*,ro,*) ;; *,ro,*/*) fail "cannot make the mount at $2 read-only" ;; esac
  nested=$((nested - 1)); shift 4
done
checks=$1; shift
while [ "$checks" -gt 0 ]; do
  [ "$("$stat" -c %d:%i -- "$1" 2>&1 3>&-)" = "$2" ] || fail "the volume at $1 changed while it was mounted"
  checks=$((checks - 1)); shift 2
done
output=$("$pivot_root" "$root" "$root/dev" 2>&1 3>&-) || fail "cannot change the root directory: $output"
output=$("$umount" -n -l /dev 2>&1 3>&-) || fail "cannot leave the root directory of the node: $output"`;
const enterDirectory = `
cd "$1" 2>/dev/null || fail "chdir to cwd (\\"$1\\") failed: no such file or directory"
shift`;

const readView = `
sethostname=$1; mount=$2; umount=$3; pivot_root=$4; stat=$5; hostname=$6; groups=$7; shift 7`;

/**
 * Prepares a process that is not isolated. ROOT is empty for a process without a view of its own.
 * SETHOSTNAME MOUNT UMOUNT PIVOT_ROOT STAT HOSTNAME GROUPS FILE... ROOT [FSTAB NESTED (SOURCE TARGET OPTIONS ESCAPED_TARGET)... CHECKS (PATH FILE)...]
 * DIRECTORY COMMAND...
 */
export const preparation = `
${fail}
${readView}
${enterControlGroups}
${setHostname}
root=$1; shift
if [ -n "$root" ]; then
fstab=$1; shift
${enterView}
fi
${enterDirectory}
exec 3>&-
exec "$@"
`;

/**
 * Makes the mounts of an isolated container, then runs its command as a child and exits with its exit code. The shell is the first process of
 * the container's process namespace: the kernel ignores signals of the container to it, and kills the container when it exits.
 * SETHOSTNAME MOUNT UMOUNT PIVOT_ROOT STAT HOSTNAME GROUPS FILE... SENTINEL ROOT FSTAB NESTED (SOURCE TARGET OPTIONS ESCAPED_TARGET)...
 * CHECKS (PATH FILE)... DIRECTORY COMMAND...
 */
export const isolatedPreparation = `
${fail}
${readView}
${enterControlGroups}
${setHostname}
sentinel=$1; root=$2; fstab=$3; shift 3
${enterView}
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

/** Ends the report. It runs with the privileges of the container, directly before the command. */
export const endReport = `printf ${startedReport} >&3; exec 3>&-; exec "$@"`;
