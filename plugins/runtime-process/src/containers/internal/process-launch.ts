import { mappedIds } from '@oarlock/primitives/os/user-namespace';
import { onTerminal, type Launch } from '@oarlock/process-supervisor/containers/launch';
import { namespaceFlags, type Tools } from '@oarlock/process-supervisor/host/host-tools';
import { SupervisorError } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import type { IsolationMode } from '@oarlock/process-supervisor/protocol/isolation';
import type { PodView } from '../../isolation/pod-view.ts';
import { dropPrivileges, type Credentials } from './privileges.ts';
import { endReport, isolatedPreparation, joinControlGroups, joinDirectory, preparation } from './wrapper-scripts.ts';

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
  /** A new mount and UTS namespace, with this view of the files. */
  readonly own?: { readonly view: ViewMounts | undefined; readonly hostname: string };
  /** A running process whose namespaces to enter. */
  readonly join?: { readonly pid: number; readonly namespaces: boolean };
  /** New namespaces in which the process is isolated. */
  readonly isolate?: IsolatedStart;
  /** The namespaces of an isolated container to enter. */
  readonly joinIsolated?: IsolatedJoin;
}

export type ViewMounts = Pick<PodView, 'newRoot' | 'fstab' | 'nested' | 'checks'>;

/** The namespaces of a container that starts isolated. */
export interface IsolatedStart {
  readonly mode: IsolationMode;
  readonly view: ViewMounts & Pick<PodView, 'sentinel'>;
  /** The host name of the container; empty for that of the node. */
  readonly hostname: string;
  /** True for a process namespace of its own. */
  readonly processes: boolean;
}

/** The namespaces of a running container. */
export interface IsolatedJoin {
  readonly mode: IsolationMode;
  readonly processes: boolean;
  /** The process id of the first process of the container, which holds its mounts. */
  readonly init: number;
  /** The process id of the container's command, as processes of the container see it. */
  readonly command: number;
}

/** Builds the command line of a process. @throws SupervisorError `FailedPrecondition` if the machine lacks a program for it */
export function buildLaunch(spec: ProcessSpec, tools: Tools): Launch {
  const { command, environment } = onTerminal(spec, tools);
  const { uid, gid } = spec.credentials;
  const owner = { ...(uid !== undefined && { uid }), ...(gid !== undefined && { gid }) };
  const prepared = { command, environment, owner };
  if (spec.isolate) return isolatedStart({ ...spec, isolate: spec.isolate }, prepared, tools);
  if (spec.joinIsolated) return isolatedJoin({ ...spec, joinIsolated: spec.joinIsolated }, prepared, tools);
  return sharedLaunch(spec, prepared, tools);
}

interface PreparedCommand {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly owner: Launch['owner'];
}

/** Builds the launch of a process that shares the node's processes and files. */
function sharedLaunch(spec: ProcessSpec, prepared: PreparedCommand, tools: Tools): Launch {
  const { owner } = prepared;
  const wrapped = spec.cgroups.length > 0 || spec.own !== undefined || spec.netns !== undefined || spec.join?.namespaces === true;
  const { command: dropped, environment, bySetpriv } = dropPrivileges(spec.credentials, prepared, { tools, wrapped });
  if (!wrapped) {
    const [file = '', ...args] = dropped;
    return { file, args, environment, directory: spec.directory, reports: false, depth: 0, tty: spec.tty, owner, ...(!bySetpriv && owner) };
  }
  const view = spec.own?.view;
  let command: readonly string[] = [
    tools.shell,
    '-c',
    preparation,
    'oarlock',
    ...preparationArguments(spec.own?.hostname ?? '', spec.cgroups, tools),
    ...(view ? viewArguments(view) : ['']),
    spec.directory,
    ...dropped,
  ];
  if (spec.own) command = [tools.unshare ?? '', ...namespaceFlags, '--', ...command];
  const enter = [
    ...(spec.join?.namespaces ? ['--target', String(spec.join.pid), '--mount', '--uts'] : []),
    ...(spec.netns !== undefined ? [`--net=${spec.netns}`] : []),
  ];
  if (enter.length > 0) command = [nsenter(tools), ...enter, '--', ...command];
  const [file = '', ...args] = command;
  return { file, args, environment, directory: '/', reports: true, depth: 0, tty: spec.tty, owner };
}

/** Builds the launch of a container in namespaces of its own. */
function isolatedStart(spec: ProcessSpec & { readonly isolate: IsolatedStart }, prepared: PreparedCommand, tools: Tools): Launch {
  const { mode, view, hostname, processes } = spec.isolate;
  const last = { ...prepared, command: [tools.shell, '-c', endReport, 'oarlock', ...prepared.command] };
  const { command, environment } = dropPrivileges(spec.credentials, last, { tools, wrapped: true, isolation: { mode } });
  const inside = [
    tools.shell,
    '-c',
    isolatedPreparation,
    'oarlock',
    ...preparationArguments(hostname, spec.cgroups, tools),
    view.sentinel,
    ...viewArguments(view),
    spec.directory,
    tools.setsid ?? '',
    ...command,
  ];
  const namespaces = [
    ...(mode === 'user' ? ['--user', '--map-root-user'] : []),
    ...namespaceFlags,
    ...(processes ? ['--pid', '--fork', '--kill-child', '--mount-proc'] : []),
  ];
  const [file = '', ...args] = [
    ...(spec.netns !== undefined ? [nsenter(tools), `--net=${spec.netns}`, '--'] : []),
    tools.unshare ?? '',
    ...namespaces,
    '--',
    ...inside,
  ];
  return { file, args, environment, directory: '/', reports: true, depth: processes ? 2 : 1, tty: spec.tty, owner: prepared.owner };
}

/** Builds the launch of another process in the namespaces of an isolated container. */
function isolatedJoin(spec: ProcessSpec & { readonly joinIsolated: IsolatedJoin }, prepared: PreparedCommand, tools: Tools): Launch {
  const { mode, processes, init, command: namespaceHolder } = spec.joinIsolated;
  const last = { ...prepared, command: [tools.shell, '-c', endReport, 'oarlock', ...prepared.command] };
  const isolation = mode === 'user' ? { mode, userNamespaceOf: namespaceHolder } : { mode };
  const { command, environment } = dropPrivileges(spec.credentials, last, { tools, wrapped: true, isolation });
  const [file = '', ...args] = [
    ...(spec.cgroups.length > 0 ? [tools.shell, '-c', joinControlGroups, 'oarlock', ...counted(spec.cgroups)] : []),
    nsenter(tools),
    '--target',
    String(init),
    ...(mode === 'user' ? ['--user', '--preserve-credentials'] : []),
    '--mount',
    '--uts',
    ...(processes ? ['--pid'] : []),
    ...(spec.netns !== undefined ? [`--net=${spec.netns}`] : []),
    '--',
    tools.shell,
    '-c',
    joinDirectory,
    'oarlock',
    spec.directory,
    ...command,
  ];
  return { file, args, environment, directory: '/', reports: true, depth: processes ? 1 : 0, tty: spec.tty, owner: prepared.owner };
}

function preparationArguments(hostname: string, cgroups: readonly string[], tools: Tools): readonly string[] {
  // in a user namespace only the system call can set the host name
  const bySysctl = tools.root && mappedIds() === 'all';
  const setHostname = bySysctl ? '' : (tools.hostname ?? '');
  const name = bySysctl || tools.hostname !== undefined ? hostname : '';
  const programs = [tools.mount, tools.umount, tools.pivotRoot, tools.stat].map((path) => path ?? '');
  return [setHostname, ...programs, name, ...counted(cgroups)];
}

function viewArguments({ newRoot, fstab, nested, checks }: ViewMounts): readonly string[] {
  return [
    newRoot,
    fstab,
    String(nested.length),
    ...nested.flatMap(({ source, target, options, escapedTarget }) => [source, target, options, escapedTarget]),
    String(checks.length),
    ...checks.flatMap(({ path, file }) => [path, file]),
  ];
}

const counted = (words: readonly string[]) => [String(words.length), ...words];

function nsenter({ nsenter: path }: Tools): string {
  if (path === undefined) throw new SupervisorError('FailedPrecondition', 'cannot enter a namespace: nsenter is not installed');
  return path;
}
