import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ContainerConfig } from '@oarlock/spi/runtime';
import { isWithin, readMountTable } from '../../isolation/mount-table.ts';
import type { ContainerIsolation, Isolation, IsolationMode } from '@oarlock/process-supervisor/protocol/isolation';
import type { HiddenDirectories, ViewMode } from '../../isolation/isolation.ts';
import { createPodView, type PodView } from '../../isolation/pod-view.ts';
import {
  checkExecutable,
  credentialsOf,
  environmentOf,
  kubeconfigPath,
  linkMounts,
  writeContainerFiles,
  writeKubeconfig,
} from './container-environment.ts';
import type { Credentials } from './privileges.ts';
import type { Launch } from '@oarlock/process-supervisor/containers/launch';
import { buildLaunch } from './process-launch.ts';
import type { ContainerRecord, PodStore } from '@oarlock/process-supervisor/containers/pod-store';
import type { HostServices, ProcessGroup } from '@oarlock/process-supervisor/containers/process-group';
import { SupervisorError, type SandboxRecord } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import { systemPath, type Tools } from '@oarlock/process-supervisor/host/host-tools';

export interface LaunchContext {
  readonly host: HostServices;
  readonly store: Pick<PodStore, 'directoryOf' | 'directoryOfSandbox'>;
  /** Directories that precede the system's on the PATH of containers: the directory of this Node.js. */
  readonly path: string;
  readonly isolation: Isolation;
  /** True if the configuration forbids containers that are not isolated. */
  readonly requiresIsolation: boolean;
  readonly hidden: HiddenDirectories;
}

export interface LaunchedContainer {
  readonly record: ContainerRecord;
  readonly sandbox: SandboxRecord;
  /** The `cgroup.procs` files of the container's cgroups. */
  readonly cgroups: readonly string[];
}

/** The launch of a container, and the data about it that `exec` needs. */
export interface ContainerLaunch {
  readonly launch: Launch;
  readonly namespaces: boolean;
  readonly isolation?: ContainerIsolation;
}

/**
 * Returns the launch of a container's own command, and creates the files that the launch needs in the container's directory.
 * @throws SupervisorError if the command cannot be run
 */
export function launchOfStart(container: LaunchedContainer, context: LaunchContext): ContainerLaunch {
  const { isolation } = context;
  const { record, sandbox, cgroups } = container;
  // as with other runtimes, a privileged container is not separated from the node
  if (isolation.mode !== 'none' && record.config.linux.security.privileged !== true)
    return isolatedStart(container, { ...context, mode: isolation.mode });
  if (isolation.mode === 'none' && context.requiresIsolation)
    throw new SupervisorError(
      'FailedPrecondition',
      `containers cannot be isolated, which \`isolation: required\` demands: ${isolation.reason}`,
    );
  const { tools } = context.host;
  const { config } = record;
  const credentials = credentialsOf(config, tools);
  const view = tools.namespaces ? viewOf(container, { ...context, mode: 'shared', credentials }) : undefined;
  const directory = context.store.directoryOf(record);
  const root = view?.root ?? (config.mounts.length === 0 ? '' : linkMounts(config, directory));
  const environment = environmentOf(
    record.id,
    { config, sandbox: sandbox.config },
    {
      path: pathOf(context),
      root,
      home: credentials.home,
      volumePaths: view?.volumePaths,
      kubeconfig: view ? undefined : writeKubeconfig(config, sandbox.config, directory),
    },
  );
  const command = [...config.command, ...config.args];
  checkCommand({ command, environment, config }, { mounts: (view?.visible ?? []).map((to) => ({ to })) });
  const launch = buildLaunch(
    {
      ...processOf(config, sandbox, { command, environment, credentials, cgroups }),
      ...(view && { own: { view, hostname: sandbox.config.hostname } }),
    },
    tools,
  );
  return { launch, namespaces: view !== undefined };
}

function isolatedStart(container: LaunchedContainer, context: LaunchContext & { readonly mode: IsolationMode }): ContainerLaunch {
  const { host, mode } = context;
  const { record, sandbox, cgroups } = container;
  const { config } = record;
  const credentials = credentialsOf(config, host.tools);
  const view = viewOf(container, { ...context, credentials });
  const environment = environmentOf(
    record.id,
    { config, sandbox: sandbox.config },
    {
      path: pathOf(context),
      root: view.root,
      home: credentials.home,
      volumePaths: view.volumePaths,
    },
  );
  const command = [...config.command, ...config.args];
  const processes = config.linux.security.namespaces.pid !== 'NODE';
  const isolation: ContainerIsolation = { mode, processes, hidden: view.hidden, visible: view.visible, volumePaths: view.volumePaths };
  checkCommand({ command, environment, config }, { mounts: visibleMounts(isolation), isolation });
  const launch = buildLaunch(
    {
      ...processOf(config, sandbox, { command, environment, credentials, cgroups }),
      isolate: { mode, processes, view, hostname: sandbox.config.hostname },
    },
    host.tools,
  );
  return { launch, namespaces: false, isolation };
}

function viewOf(
  { record, sandbox, cgroups }: LaunchedContainer,
  {
    host: { tools },
    store,
    hidden,
    mode,
    credentials,
  }: LaunchContext & { readonly mode: ViewMode; readonly credentials: Credentials & { readonly home: string } },
): PodView {
  const { mounts, linux } = record.config;
  const directory = store.directoryOf(record);
  try {
    return createPodView({
      mode,
      hidden,
      table: readMountTable(),
      directory,
      podDirectory: store.directoryOfSandbox(record.sandboxId),
      home: credentials.home,
      owner: credentials,
      mounts,
      files: writeContainerFiles(sandbox.config, directory),
      cgroups: cgroups.map((file) => dirname(file)),
      maskedPaths: linux.security.maskedPaths ?? [],
      readonlyPaths: linux.security.readonlyPaths ?? [],
      wrapperPrograms: wrapperPrograms(tools),
    });
  } catch (cause) {
    throw new SupervisorError('FailedPrecondition', (cause as Error).message, { cause });
  }
}

/** Returns the programs that run with privileges in the mount namespace of a container. */
export function wrapperPrograms({
  shell,
  env,
  mount,
  umount,
  nsenter,
  pivotRoot,
  setpriv,
  setsid,
  stat,
  unshare,
  script,
}: Tools): readonly string[] {
  return [shell, env, mount, umount, nsenter, pivotRoot, setpriv, setsid, stat, unshare, script].filter((path) => path !== undefined);
}

/** Returns the launch of another command in a running container. @throws SupervisorError if the command cannot be run */
export function launchOfExec(
  { record, sandbox, cgroups }: LaunchedContainer,
  context: LaunchContext,
  { command, tty, group }: { readonly command: readonly string[]; readonly tty: boolean; readonly group: ProcessGroup },
): Launch {
  const { tools } = context.host;
  const config: ContainerConfig = { ...record.config, tty };
  const { isolation } = record;
  const namespaces = record.namespaces === true;
  const credentials = credentialsOf(config, tools);
  const directory = context.store.directoryOf(record);
  const [links, kubeconfig] = [join(directory, 'root'), kubeconfigPath(directory)];
  const environment = environmentOf(
    record.id,
    { config, sandbox: sandbox.config },
    {
      path: pathOf(context),
      root: existsSync(links) ? links : '',
      home: credentials.home,
      volumePaths: isolation?.volumePaths,
      kubeconfig: existsSync(kubeconfig) ? kubeconfig : undefined,
    },
  );
  const own = namespaces ? config.mounts.map(({ containerPath }) => ({ to: containerPath })) : [];
  checkCommand({ command, environment, config }, { mounts: isolation ? visibleMounts(isolation) : own, isolation });
  return buildLaunch(
    {
      ...processOf(config, sandbox, { command, environment, credentials, cgroups }),
      ...(isolation
        ? { joinIsolated: { mode: isolation.mode, processes: isolation.processes, ...group.namespaceHolders() } }
        : { join: { pid: group.pid, namespaces } }),
    },
    tools,
  );
}

function processOf(
  config: ContainerConfig,
  { netns }: SandboxRecord,
  rest: {
    readonly command: readonly string[];
    readonly environment: Readonly<Record<string, string>>;
    readonly credentials: Credentials;
    readonly cgroups: readonly string[];
  },
) {
  return { ...rest, directory: workingDirectory(config), tty: config.tty, ...(netns !== undefined && { netns }) };
}

const pathOf = ({ path }: LaunchContext) => `${path}:${systemPath}`;
const workingDirectory = ({ workingDir }: ContainerConfig) => (workingDir === undefined || workingDir === '' ? '/' : workingDir);
const visibleMounts = ({ visible }: ContainerIsolation) => visible.map((to) => ({ to }));

interface CommandToCheck {
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly config: ContainerConfig;
}

/** Checks the command. @throws SupervisorError if the program does not exist or is not executable */
function checkCommand(
  { command: [program = ''], environment, config }: CommandToCheck,
  { mounts, isolation }: { readonly mounts: readonly { readonly to: string }[]; readonly isolation?: ContainerIsolation | undefined },
): void {
  const problem = checkExecutable(program, {
    path: environment['PATH'] ?? systemPath,
    directory: workingDirectory(config),
    mounts,
    hides: (path) => isolation?.hidden.some((directory) => isWithin(path, directory)) === true,
  });
  if (problem !== undefined) throw new SupervisorError('FailedPrecondition', problem);
}
