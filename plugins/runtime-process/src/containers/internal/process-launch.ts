import type { Tools } from '../../host/host-tools.ts';
import { namespaceFlags } from '../../host/host-tools.ts';
import { SupervisorError } from '../../protocol/supervisor-protocol.ts';

/** The user, groups and privileges of a process. Absent fields: those of the supervisor. */
export interface Credentials {
  readonly uid?: number;
  readonly gid?: number;
  readonly groups: readonly number[];
  readonly noNewPrivileges: boolean;
  /** For root: capabilities to drop, and those to keep if `drop` contains ALL. */
  readonly capabilities?: { readonly add: readonly string[]; readonly drop: readonly string[] };
}
export interface BindMount {
  readonly from: string;
  readonly to: string;
  readonly readonly: boolean;
}

/** A process to run. */
export interface ProcessSpec {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly directory: string;
  readonly tty: boolean;
  readonly credentials: Credentials;
  /** A network namespace to enter. */
  readonly netns?: string;
  /** `cgroup.procs` files of the control groups to enter. */
  readonly cgroups: readonly string[];
  /** A new mount and UTS namespace, with these mounts. */
  readonly own?: { readonly mounts: readonly BindMount[]; readonly hostname: string };
  /** A running process whose namespaces to enter. */
  readonly join?: { readonly pid: number; readonly namespaces: boolean };
}

/** How a process is run: one program with arguments and environment. Each wrapper execs the next program, so there is only one process. */
export interface Launch {
  readonly file: string;
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly directory: string;
  /** The user and group that spawn switches to. */
  readonly uid?: number;
  readonly gid?: number;
  /** The user that the command finally runs as, by whatever means. It owns the pipes. */
  readonly owner: { readonly uid?: number; readonly gid?: number };
  /** True if the wrapper needs descriptor 3: it reports a failure before the command there, and closes it when the command starts. */
  readonly reports: boolean;
  readonly tty: boolean;
}

/**
 * The wrapper script, which prepares a process from the inside. It is constant: its input comes as arguments.
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
  output=$("$mount" --rbind "$1" "$2" 2>&1 3>&-) || fail "cannot mount $1 at $2: $output"
  if [ "$3" = ro ]; then output=$("$mount" -o remount,bind,ro "$2" 2>&1 3>&-) || fail "cannot make the mount at $2 read-only: $output"; fi
  mounts=$((mounts - 1)); shift 3
done
cd "$1" 2>/dev/null || fail "chdir to cwd (\\"$1\\") failed: no such file or directory"
shift
exec 3>&-
exec "$@"
`;

/**
 * The script that `script` runs on its terminal. `script` takes a command only as text, so the words of the command are passed in the
 * environment; the only thing that is evaluated as text here is a counter.
 */
const terminalScript =
  'i=0; set --; while [ "$i" -lt "$OARLOCK_WORDS" ]; do eval "set -- \\"\\$@\\" \\"\\$OARLOCK_WORD_$i\\"; unset OARLOCK_WORD_$i"; i=$((i + 1)); done; unset OARLOCK_WORDS i; exec "$@"';

/** Variables that the loader, the shell or libc of a wrapper would act on, while it runs as root before the user is switched. */
const dangerous =
  /^(LD_|DYLD_|GCONV_PATH|GETCONF_DIR|GLIBC_|HOSTALIASES|LOCALDOMAIN|LOCPATH|MALLOC_|NIS_PATH|NLSPATH|RES|TMPDIR|TZDIR|IFS$|ENV$|BASH|SHELLOPTS|PS4|CDPATH|POSIXLY_CORRECT|LIBMOUNT_)/;

/** Builds the command line of a process. @throws SupervisorError `FailedPrecondition` if the machine lacks a program for it */
export function buildLaunch(spec: ProcessSpec, tools: Tools): Launch {
  let environment = { ...spec.environment };
  let command = [...spec.command];
  if (spec.tty) {
    if (tools.script === undefined)
      throw new SupervisorError('Unsupported', "terminals are not supported for process containers: util-linux's script is not installed");
    for (const [index, word] of command.entries()) environment[`OARLOCK_WORD_${index}`] = word;
    environment = { ...environment, OARLOCK_WORDS: String(command.length), SHELL: tools.shell };
    command = [tools.script, '-q', '-e', '-f', '-E', 'always', '-c', terminalScript, '/dev/null'];
  }
  const wrapped = spec.cgroups.length > 0 || spec.own !== undefined || spec.netns !== undefined || spec.join?.namespaces === true;
  const { uid, gid, groups, noNewPrivileges, capabilities } = spec.credentials;
  const limited = tools.root && capabilities !== undefined && capabilities.drop.length > 0;
  const switches = uid !== undefined || gid !== undefined;
  const owner = { ...(uid !== undefined && { uid }), ...(gid !== undefined && { gid }) };
  const bySetpriv = noNewPrivileges || limited || (switches && (wrapped || groups.length > 0));
  if (bySetpriv) {
    if (tools.setpriv === undefined) {
      if (switches) throw new SupervisorError('FailedPrecondition', 'cannot switch to the user of a container: setpriv is not installed');
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
    return { file, args, environment, directory: spec.directory, reports: false, tty: spec.tty, owner, ...(!bySetpriv && owner) };
  }
  const mounts = spec.own?.mounts ?? [];
  command = [
    tools.shell,
    '-c',
    preparation,
    'oarlock',
    tools.mount ?? '',
    spec.own?.hostname ?? '',
    String(spec.cgroups.length),
    ...spec.cgroups,
    String(mounts.length),
    ...mounts.flatMap(({ from, to, readonly }) => [from, to, readonly ? 'ro' : 'rw']),
    spec.directory,
    ...command,
  ];
  if (spec.own) command = [tools.unshare ?? '', ...namespaceFlags, '--', ...command];
  const enter = [
    ...(spec.join?.namespaces ? ['--target', String(spec.join.pid), '--mount', '--uts'] : []),
    ...(spec.netns !== undefined ? [`--net=${spec.netns}`] : []),
  ];
  if (enter.length > 0) {
    if (tools.nsenter === undefined) throw new SupervisorError('FailedPrecondition', 'cannot enter a namespace: nsenter is not installed');
    command = [tools.nsenter, ...enter, '--', ...command];
  }
  const [file = '', ...args] = command;
  return { file, args, environment, directory: '/', reports: true, tty: spec.tty, owner };
}

function capabilityFlags({ add, drop }: { readonly add: readonly string[]; readonly drop: readonly string[] }): string[] {
  const shortName = (name: string) => name.replace(/^CAP_/i, '').toLowerCase();
  const all = drop.some((name) => shortName(name) === 'all');
  const flags = all ? ['-all', ...add.map((name) => `+${shortName(name)}`)] : drop.map((name) => `-${shortName(name)}`);
  return ['--bounding-set', flags.join(','), '--inh-caps', flags.join(',')];
}
