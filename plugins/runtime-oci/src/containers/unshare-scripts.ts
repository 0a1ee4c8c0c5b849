// The scripts of the launcher that needs no OCI runtime. They are constant: their input comes as arguments. Descriptor 3 reports a failure before the
// command starts, and `started`.

const common = `
fail() { printf '%s' "$1" >&3; exit 128; }
tool() { name=$1; shift; "$tools/ld" --library-path "$tools/lib" "$tools/bin/$name" "$@"; }
check() {
  case $1 in
    '') fail 'no command specified' ;;
    */*)
      [ -e "$1" ] || fail "exec: \\"$1\\": stat $1: no such file or directory"
      [ ! -d "$1" ] || fail "exec: \\"$1\\": is a directory"
      [ -x "$1" ] || fail "exec: \\"$1\\": permission denied" ;;
    *)
      old_ifs=$IFS; IFS=:; set -f; found=
      for directory in $path; do if [ -x "$directory/$1" ] && [ ! -d "$directory/$1" ]; then found=yes; break; fi; done
      IFS=$old_ifs; set +f
      [ -n "$found" ] || fail "exec: \\"$1\\": executable file not found in \\$PATH" ;;
  esac
}`;

/**
 * Makes the root of a container and runs its command in it. HIDDEN is a directory below /dev with an unpredictable name, so that links of the image
 * cannot lead to the root directory of the node while it is there; it is a mount, which the container cannot rename: `exec` starts programs in it.
 * `mount -i` runs no helper such as /sbin/mount.proc of the image. The tools are read-only, because all containers have the same. FLAGS are those that the mount of the tools must keep.
 * TOOLS MOUNT PIVOT_ROOT MKDIR SETHOSTNAME HOSTNAME ROOT HIDDEN KIND DIRECTORY SOURCE FLAGS [volume TARGET DIRECTORY OPTIONS]... OPERATION... -- DIRECTORY PATH
 * PROGRAM LAUNCHER...
 */
export const makeRoot = `
${common}
source=$1; mount=$2; pivot_root=$3; mkdir=$4; sethostname=$5; hostname=$6; root=$7; hidden=$8; kind=$9; shift 9; base=$1; options=$2; flags=$3; shift 3
if [ -n "$hostname" ]; then output=$("$sethostname" "$hostname" 2>&1 3>&-) || fail "cannot set the host name: $output"; fi
while [ "$1" = volume ]; do
  cd "$3" || fail "cannot enter $3"
  output=$("$mount" -n -t overlay -o "$4" overlay "$2" 2>&1 3>&-) || fail "cannot mount the image volume: $output"
  shift 4
done
cd "$base" || fail "cannot enter $base"
if [ "$kind" = overlay ]; then output=$("$mount" -n -t overlay -o "$options" overlay "$root" 2>&1 3>&-) || fail "cannot mount the image: $output"
else output=$("$mount" -n --rbind "$options" "$root" 2>&1 3>&-) || fail "cannot mount the root directory: $output"; fi
[ ! -L "$root/dev" ] || fail 'the image has a link at /dev'
[ -d "$root/dev" ] || "$mkdir" "$root/dev" || fail 'cannot create /dev'
output=$("$mount" -n -t tmpfs -o nosuid,mode=755,size=65536k tmpfs "$root/dev" 2>&1 3>&-) || fail "cannot mount /dev: $output"
"$mkdir" "$root/dev/$hidden" || fail 'cannot prepare /dev'
output=$("$mount" -n -t tmpfs -o nosuid,nodev,noexec,mode=755,size=64k tmpfs "$root/dev/$hidden" 2>&1 3>&-) || fail "cannot prepare /dev: $output"
"$mkdir" "$root/dev/$hidden/tools" "$root/dev/$hidden/node" || fail 'cannot prepare /dev'
output=$("$mount" -n --bind "$source" "$root/dev/$hidden/tools" 2>&1 3>&-) || fail "cannot mount the tools: $output"
output=$("$mount" -n -o "remount,bind,$flags" "$root/dev/$hidden/tools" 2>&1 3>&-) || fail "cannot make the tools read-only: $output"
cd "$root" || fail "cannot enter $root"
output=$("$pivot_root" . "dev/$hidden/node" 2>&1 3>&-) || fail "cannot change the root directory: $output"
cd /
tools=/dev/$hidden/tools; node=/dev/$hidden/node
point() {
  if [ -d "$1" ]; then [ -d "$2" ] || tool mkdir -p "$2" || fail "cannot create the mount point $2"
  elif [ ! -e "$2" ]; then tool mkdir -p "\${2%/*}/" && printf '' > "$2" || fail "cannot create the mount point $2"; fi
}
mounts() { output=$(tool mount -n -i "$@" 2>&1 3>&-) || fail "cannot mount $place: $output"; }
while [ "$1" != -- ]; do
  case $1 in
    mount) place=$4; tool mkdir -p "$place" || fail "cannot create the mount point $place"; mounts -t "$2" -o "$5" "$3" "$place"; shift 5 ;;
    bind) place=$3; [ -e "$node$2" ] || fail "cannot mount $2: no such file or directory"
      point "$node$2" "$place"; mounts --rbind "$node$2" "$place"
      [ -z "$4" ] || mounts -o "remount,bind,$4" "$place"; shift 4 ;;
    link) tool ln -s "$2" "$3" || fail "cannot create $3"; shift 3 ;;
    mask) place=$2
      if [ -d "$place" ]; then mounts -t tmpfs -o ro,size=0 tmpfs "$place"; elif [ -e "$place" ]; then mounts --bind /dev/null "$place"; fi; shift 2 ;;
    readonly) place=$2
      if [ -e "$place" ]; then mounts --rbind "$place" "$place"; mounts -o remount,bind,ro,nosuid,nodev,noexec "$place"; fi; shift 2 ;;
    root-readonly) place=/; mounts -o remount,bind,ro /; shift ;;
    *) fail "unknown operation $1" ;;
  esac
done
shift
directory=$1; path=$2; program=$3; shift 3
[ -d "$directory" ] || tool mkdir -p "$directory" 2>/dev/null
cd "$directory" 2>/dev/null || fail "chdir to cwd (\\"$directory\\") failed: no such file or directory"
output=$(tool umount -n -i -l "$node" 2>&1 3>&-) || fail "cannot leave the root directory of the node: $output"
[ ! -e "$node/proc" ] || fail 'the root directory of the node is visible'
tool rmdir "$node" 2>/dev/null
check "$program"
printf started >&3
exec 3>&-
exec "$@"`;

/** Runs a command in a container whose namespaces were entered. TOOLS DIRECTORY PATH PROGRAM LAUNCHER... */
export const joinRoot = `
${common}
tools=$1; directory=$2; path=$3; program=$4; shift 4
cd "$directory" 2>/dev/null || fail "chdir to cwd (\\"$directory\\") failed: no such file or directory"
check "$program"
printf started >&3
exec 3>&-
exec "$@"`;

/** Enters control groups before anything else runs. GROUPS FILE... COMMAND... */
export const enterCgroups = `
fail() { printf '%s' "$1" >&3; exit 128; }
groups=$1; shift
while [ "$groups" -gt 0 ]; do printf '%s' "$$" > "$1" || fail "cannot enter the control group $1"; groups=$((groups - 1)); shift; done
exec "$@"`;

/**
 * Runs a command as the first process of a new process namespace. `unshare --fork` reports a command that SIGKILL ended with the code 1.
 * COMMAND...
 */
export const forkFirst = `exec 4>&2 2>/dev/null
"$@" 2>&4 4>&-
exit $?`;
