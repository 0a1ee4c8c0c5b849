import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { ContainerConfig } from '@oarlock/spi/runtime';
import { bindMounts, credentialsOf, environmentOf, linkMounts, checkExecutable } from './container-environment.ts';
import { type BindMount, type Launch, buildLaunch } from './process-launch.ts';
import type { ContainerRecord, PodStore } from '../pod-store.ts';
import type { HostServices } from '../process-group.ts';
import { SupervisorError, type SandboxRecord } from '../../protocol/supervisor-protocol.ts';
import { systemPath } from '../../host/host-tools.ts';

export interface LaunchContext {
  readonly host: HostServices;
  readonly store: PodStore;
  /** Directories that precede the system's on the PATH of containers: the directory of this Node.js. */
  readonly path: string;
}

/** Returns how to run a container's own command, and creates what it needs in the container's directory. @throws SupervisorError if it cannot be run */
export function launchOfStart(
  record: ContainerRecord,
  sandbox: SandboxRecord,
  context: LaunchContext,
  cgroups: readonly string[],
): { readonly launch: Launch; readonly namespaces: boolean } {
  const {
    host: { tools },
    store,
  } = context;
  const { config } = record;
  const credentials = credentialsOf(config, tools);
  const directory = store.directoryOf(record);
  const { mounts, complete } = tools.namespaces ? bindMounts(config, sandbox.config, directory) : { mounts: [], complete: false };
  const root = complete || config.mounts.length === 0 ? '' : linkMounts(config, directory);
  const environment = environmentOf(record.id, config, sandbox.config, {
    path: `${context.path}:${systemPath}`,
    root,
    home: credentials.home,
  });
  const command = [...config.command, ...config.args];
  checkCommand(command, environment, config, mounts);
  const namespaces = tools.namespaces && (mounts.length > 0 || sandbox.netns !== undefined);
  const launch = buildLaunch(
    {
      command,
      environment,
      directory: workingDirectory(config),
      tty: config.tty,
      credentials,
      cgroups,
      ...(sandbox.netns !== undefined && { netns: sandbox.netns }),
      ...(namespaces && { own: { mounts, hostname: sandbox.netns !== undefined ? sandbox.config.hostname : '' } }),
    },
    tools,
  );
  return { launch, namespaces };
}

/** Returns how to run another command in a container whose first process is `pid`. @throws SupervisorError */
export function launchOfExec(
  record: ContainerRecord,
  sandbox: SandboxRecord,
  context: LaunchContext,
  {
    command,
    tty,
    pid,
    cgroups,
  }: { readonly command: readonly string[]; readonly tty: boolean; readonly pid: number; readonly cgroups: readonly string[] },
): Launch {
  const {
    host: { tools },
    store,
  } = context;
  const config: ContainerConfig = { ...record.config, tty };
  const namespaces = record.namespaces === true;
  const credentials = credentialsOf(config, tools);
  const links = join(store.directoryOf(record), 'root');
  const environment = environmentOf(record.id, config, sandbox.config, {
    path: `${context.path}:${systemPath}`,
    root: existsSync(links) ? links : '',
    home: credentials.home,
  });
  const mounts = namespaces
    ? config.mounts.map(({ containerPath, hostPath }) => ({ from: hostPath, to: containerPath, readonly: false }))
    : [];
  checkCommand(command, environment, config, mounts);
  return buildLaunch(
    {
      command,
      environment,
      directory: workingDirectory(config),
      tty,
      credentials,
      cgroups,
      join: { pid, namespaces },
      ...(sandbox.netns !== undefined && { netns: sandbox.netns }),
    },
    tools,
  );
}

const workingDirectory = ({ workingDir }: ContainerConfig) => (workingDir === undefined || workingDir === '' ? '/' : workingDir);

/** @throws SupervisorError if the program does not exist or is not executable */
function checkCommand(
  [program = '']: readonly string[],
  environment: Readonly<Record<string, string>>,
  config: ContainerConfig,
  mounts: readonly BindMount[],
): void {
  const problem = checkExecutable(program, { path: environment['PATH'] ?? systemPath, directory: workingDirectory(config), mounts });
  if (problem !== undefined) throw new SupervisorError('FailedPrecondition', problem);
}
