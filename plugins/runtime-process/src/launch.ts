import type { Tools } from './tools.ts';
import { namespaceFlags } from './tools.ts';
import { Refusal } from './protocol.ts';

/** As whom, and with which rights. Absent parts: as the supervisor. */
export interface Credentials {
  readonly uid?: number;
  readonly gid?: number;
  readonly groups: readonly number[];
  readonly noNewPrivileges: boolean;
  /** Capabilities to take from root, and those to leave although all are taken. */
  readonly capabilities?: { readonly add: readonly string[]; readonly drop: readonly string[] };
}
export interface BindMount {
  readonly from: string;
  readonly to: string;
  readonly readonly: boolean;
}

/** What is to run. */
export interface Wish {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly directory: string;
  readonly tty: boolean;
  readonly credentials: Credentials;
  /** A network namespace to enter. */
  readonly netns?: string;
  /** `cgroup.procs` files to enter by. */
  readonly cgroups: readonly string[];
  /** A mount namespace of its own, with these mounts. */
  readonly own?: { readonly mounts: readonly BindMount[]; readonly hostname: string };
  /** The namespaces of a process that runs. */
  readonly beside?: { readonly pid: number; readonly namespaces: boolean };
}

/** How it is run: one program, its arguments, its environment. Everything between us and the command execs, so the process stays one. */
export interface Launch {
  readonly file: string;
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly directory: string;
  /** Switched to by the system when it starts the program. */
  readonly uid?: number;
  readonly gid?: number;
  /** Who the command runs as in the end, however it gets there: the pipes are theirs. */
  readonly owner: { readonly uid?: number; readonly gid?: number };
  /** Descriptor 3 is wanted: it carries what failed before the command, and closes when the command takes over. */
  readonly reports: boolean;
  readonly tty: boolean;
}

/**
 * Prepares a process from the inside. Fixed text: what it works on comes as arguments.
 * MOUNT HOSTNAME GROUPS FILE... MOUNTS (FROM TO ro|rw)... DIRECTORY COMMAND...
 */
const preparation = `
fail() { printf '%s' "$1" >&3; exit 128; }
mount=$1; hostname=$2; groups=$3; shift 3
while [ "$groups" -gt 0 ]; do
  printf '%s' "$$" > "$1" || fail "cannot enter the control group $1"
  groups=$((groups - 1)); shift
done
if [ -n "$hostname" ]; then printf '%s' "$hostname" > /proc/sys/kernel/hostname || fail "cannot set the host name"; fi
mounts=$1; shift
while [ "$mounts" -gt 0 ]; do
  said=$("$mount" --rbind "$1" "$2" 2>&1 3>&-) || fail "cannot mount $1 at $2: $said"
  if [ "$3" = ro ]; then said=$("$mount" -o remount,bind,ro "$2" 2>&1 3>&-) || fail "cannot make the mount at $2 read-only: $said"; fi
  mounts=$((mounts - 1)); shift 3
done
cd "$1" 2>/dev/null || fail "chdir to cwd (\\"$1\\") failed: no such file or directory"
shift
exec 3>&-
exec "$@"
`;

/**
 * What `script` runs on the terminal it makes. It takes a command only as text, so the words travel in the environment; the one
 * thing that is put into text here is a counter.
 */
const onTerminal =
  'i=0; set --; while [ "$i" -lt "$OARLOCK_WORDS" ]; do eval "set -- \\"\\$@\\" \\"\\$OARLOCK_WORD_$i\\"; unset OARLOCK_WORD_$i"; i=$((i + 1)); done; unset OARLOCK_WORDS i; exec "$@"';

/** Settings that the loader, the shell or libc of a wrapper would act upon, which runs as root before the user is switched. */
const dangerous =
  /^(LD_|DYLD_|GCONV_PATH|GETCONF_DIR|GLIBC_|HOSTALIASES|LOCALDOMAIN|LOCPATH|MALLOC_|NIS_PATH|NLSPATH|RES|TMPDIR|TZDIR|IFS$|ENV$|BASH|SHELLOPTS|PS4|CDPATH|POSIXLY_CORRECT|LIBMOUNT_)/;

/** @throws Refusal `FailedPrecondition` when the machine lacks what the wish needs */
export function launchOf(wish: Wish, tools: Tools): Launch {
  let environment = { ...wish.environment };
  let command = [...wish.command];
  if (wish.tty) {
    if (tools.script === undefined)
      throw new Refusal('Unsupported', "there are no terminals for process containers here: util-linux's script is not installed");
    for (const [index, word] of command.entries()) environment[`OARLOCK_WORD_${index}`] = word;
    environment = { ...environment, OARLOCK_WORDS: String(command.length), SHELL: tools.shell };
    command = [tools.script, '-q', '-e', '-f', '-E', 'always', '-c', onTerminal, '/dev/null'];
  }
  const wrapped = wish.cgroups.length > 0 || wish.own !== undefined || wish.netns !== undefined || wish.beside?.namespaces === true;
  const { uid, gid, groups, noNewPrivileges, capabilities } = wish.credentials;
  const limited = tools.root && capabilities !== undefined && capabilities.drop.length > 0;
  const switches = uid !== undefined || gid !== undefined;
  const owner = { ...(uid !== undefined && { uid }), ...(gid !== undefined && { gid }) };
  const bySetpriv = noNewPrivileges || limited || (switches && (wrapped || groups.length > 0));
  if (bySetpriv) {
    if (tools.setpriv === undefined) {
      if (switches) throw new Refusal('FailedPrecondition', 'the user of a container cannot be switched here: setpriv is not installed');
    } else {
      const held = switches && tools.env !== undefined ? Object.entries(environment).filter(([name]) => dangerous.test(name)) : [];
      for (const [name] of held) delete environment[name];
      command = [
        tools.setpriv,
        ...(uid !== undefined ? ['--reuid', String(uid)] : []),
        ...(gid !== undefined ? ['--regid', String(gid)] : []),
        ...(switches ? (groups.length > 0 ? ['--groups', groups.join(',')] : ['--clear-groups']) : []),
        ...(limited ? capabilityFlags(capabilities) : []),
        ...(noNewPrivileges ? ['--no-new-privs'] : []),
        '--',
        ...(held.length > 0 ? [tools.env ?? '', ...held.map(([name, value]) => `${name}=${value}`)] : []),
        ...command,
      ];
    }
  }
  if (!wrapped) {
    const [file = '', ...args] = command;
    return { file, args, environment, directory: wish.directory, reports: false, tty: wish.tty, owner, ...(!bySetpriv && owner) };
  }
  const mounts = wish.own?.mounts ?? [];
  command = [
    tools.shell,
    '-c',
    preparation,
    'oarlock',
    tools.mount ?? '',
    wish.own?.hostname ?? '',
    String(wish.cgroups.length),
    ...wish.cgroups,
    String(mounts.length),
    ...mounts.flatMap(({ from, to, readonly }) => [from, to, readonly ? 'ro' : 'rw']),
    wish.directory,
    ...command,
  ];
  if (wish.own) command = [tools.unshare ?? '', ...namespaceFlags, '--', ...command];
  const enter = [
    ...(wish.beside?.namespaces ? ['--target', String(wish.beside.pid), '--mount', '--uts'] : []),
    ...(wish.netns !== undefined ? [`--net=${wish.netns}`] : []),
  ];
  if (enter.length > 0) {
    if (tools.nsenter === undefined)
      throw new Refusal('FailedPrecondition', 'a namespace cannot be entered here: nsenter is not installed');
    command = [tools.nsenter, ...enter, '--', ...command];
  }
  const [file = '', ...args] = command;
  return { file, args, environment, directory: '/', reports: true, tty: wish.tty, owner };
}

function capabilityFlags({ add, drop }: { readonly add: readonly string[]; readonly drop: readonly string[] }): string[] {
  const named = (name: string) => name.replace(/^CAP_/i, '').toLowerCase();
  const all = drop.some((name) => named(name) === 'all');
  const flags = all ? ['-all', ...add.map((name) => `+${named(name)}`)] : drop.map((name) => `-${named(name)}`);
  return ['--bounding-set', flags.join(','), '--inh-caps', flags.join(',')];
}
