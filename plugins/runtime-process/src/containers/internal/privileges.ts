import type { Tools } from '@oarlock/process-supervisor/host/host-tools';
import type { IsolationMode } from '@oarlock/process-supervisor/protocol/isolation';
import { SupervisorError } from '@oarlock/process-supervisor/protocol/supervisor-protocol';

/** The user, groups and privileges of a process. An absent field means the value of the supervisor. */
export interface Credentials {
  readonly uid?: number;
  readonly gid?: number;
  readonly groups: readonly number[];
  readonly noNewPrivileges: boolean;
  /** For root: capabilities to drop, and those to keep if `drop` contains ALL. */
  readonly capabilities?: { readonly add: readonly string[]; readonly drop: readonly string[] };
}

/** Variables that the loader, the shell or libc of a wrapper would act on, while it runs as root before the user is switched. */
const dangerous =
  /^(LD_|DYLD_|GCONV_PATH|GETCONF_DIR|GLIBC_|HOSTALIASES|LOCALDOMAIN|LOCPATH|MALLOC_|NIS_PATH|NLSPATH|RES|TMPDIR|TZDIR|IFS$|ENV$|BASH|SHELLOPTS|PS4|CDPATH|POSIXLY_CORRECT|LIBMOUNT_|LANG|LC_|OUTPUT_CHARSET|TEXTDOMAIN)/;

/** The capabilities of an isolated container of root: those of other runtimes, without MKNOD, as devices are not restricted by a control group. */
const defaultCapabilities = [
  'chown',
  'dac_override',
  'fowner',
  'fsetid',
  'kill',
  'setgid',
  'setuid',
  'setpcap',
  'net_bind_service',
  'net_raw',
  'sys_chroot',
  'audit_write',
  'setfcap',
] as const;

export interface PrivilegeOptions {
  readonly tools: Tools;
  /** True if other wrappers run before setpriv. */
  readonly wrapped: boolean;
  /**
   * Set for an isolated container. In mode `user` the command gets a user namespace in which it has its own user and no capabilities for the
   * container's mounts: that of the process `userNamespaceOf`, or a new one.
   */
  readonly isolation?: { readonly mode: IsolationMode; readonly userNamespaceOf?: number };
}

/** A command, and whether setpriv switches to its user. Variables that wrappers would act on are set after the privileges are dropped. */
export interface DroppedCommand {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly bySetpriv: boolean;
}

/** Wraps a command so that it runs with the container's credentials. @throws SupervisorError `FailedPrecondition` if setpriv is needed and missing */
export function dropPrivileges(
  credentials: Credentials,
  { command, environment }: { readonly command: readonly string[]; readonly environment: Readonly<Record<string, string>> },
  { tools, wrapped, isolation }: PrivilegeOptions,
): DroppedCommand {
  const { uid, gid, groups } = credentials;
  const switches = uid !== undefined || gid !== undefined;
  const noNewPrivileges = credentials.noNewPrivileges || isolation !== undefined;
  const capabilities = tools.root ? capabilityFlags(credentials, isolation !== undefined) : [];
  const bySetpriv = noNewPrivileges || capabilities.length > 0 || (switches && (wrapped || groups.length > 0));
  if (!bySetpriv) return { command, environment, bySetpriv };
  if (tools.setpriv === undefined) {
    if (switches) throw new SupervisorError('FailedPrecondition', 'cannot switch to the user of a container: setpriv is not installed');
    return { command, environment, bySetpriv };
  }
  const holds = (switches || isolation !== undefined) && tools.env !== undefined;
  const held = holds ? Object.entries(environment).filter(([name]) => dangerous.test(name)) : [];
  return {
    command: [
      ...(isolation?.mode === 'user' ? enterUserNamespace(tools, isolation.userNamespaceOf) : []),
      tools.setpriv,
      ...(uid !== undefined ? ['--reuid', String(uid)] : []),
      ...(gid !== undefined ? ['--regid', String(gid)] : []),
      ...(switches ? (groups.length > 0 ? ['--groups', groups.join(',')] : ['--clear-groups']) : []),
      ...capabilities,
      ...(noNewPrivileges ? ['--no-new-privs'] : []),
      '--',
      ...(held.length > 0 ? [tools.env ?? '', ...held.map(([name, value]) => `${name}=${value}`)] : []),
      ...command,
    ],
    environment: Object.fromEntries(Object.entries(environment).filter(([name]) => !held.some(([other]) => other === name))),
    bySetpriv,
  };
}

function enterUserNamespace(tools: Tools, target: number | undefined): string[] {
  if (target !== undefined) return [tools.nsenter ?? '', `--user=/proc/${target}/ns/user`, '--preserve-credentials', '--'];
  const ids = [`--map-user=${process.getuid?.() ?? 0}`, `--map-group=${process.getgid?.() ?? 0}`];
  return [tools.unshare ?? '', '--user', ...ids, '--'];
}

const shortName = (name: string) => name.replace(/^CAP_/i, '').toLowerCase();

/** Returns setpriv's flags for the capabilities that a container of root keeps; none if it keeps all. */
function capabilityFlags({ capabilities }: Credentials, isolated: boolean): string[] {
  const add = (capabilities?.add ?? []).map(shortName);
  const drop = (capabilities?.drop ?? []).map(shortName);
  if (!isolated && drop.length === 0) return [];
  const dropsAll = drop.includes('all');
  let flags: string[];
  if (dropsAll || (isolated && !add.includes('all'))) {
    const kept = dropsAll ? [] : defaultCapabilities.filter((name) => !drop.includes(name));
    flags = ['-all', ...new Set([...kept, ...add])].map((name) => (name === '-all' ? name : `+${name}`));
  } else flags = drop.map((name) => `-${name}`);
  return flags.length === 0 ? [] : ['--bounding-set', flags.join(','), '--inh-caps', flags.join(',')];
}
