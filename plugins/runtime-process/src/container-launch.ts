import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { ContainerConfig } from '@oarlock/spi/runtime';
import { bindMounts, credentialsOf, environmentOf, linkMounts, whyNotRunnable } from './environment.ts';
import { type BindMount, type Launch, launchOf } from './launch.ts';
import type { ContainerRecord, PodStore } from './pod-store.ts';
import type { Machine } from './process-group.ts';
import { Refusal, type SandboxRecord } from './protocol.ts';
import { systemPath } from './tools.ts';

export interface LaunchSurroundings {
  readonly machine: Machine;
  readonly store: PodStore;
  /** Before the system's directories on a container's PATH: where this Node is. */
  readonly path: string;
}

/** How a container's own command is run. Makes what it needs in the container's directory. @throws Refusal with the reason why it cannot be run */
export function launchOfStart(
  record: ContainerRecord,
  sandbox: SandboxRecord,
  around: LaunchSurroundings,
  cgroups: readonly string[],
): { readonly launch: Launch; readonly namespaces: boolean } {
  const {
    machine: { tools },
    store,
  } = around;
  const { config } = record;
  const credentials = credentialsOf(config, tools);
  const directory = store.directoryOf(record);
  const { mounts, complete } = tools.namespaces ? bindMounts(config, sandbox.config, directory) : { mounts: [], complete: false };
  const root = complete || config.mounts.length === 0 ? '' : linkMounts(config, directory);
  const environment = environmentOf(record.id, config, sandbox.config, {
    path: `${around.path}:${systemPath}`,
    root,
    home: credentials.home,
  });
  const command = [...config.command, ...config.args];
  refuseWhatCannotRun(command, environment, config, mounts);
  const namespaces = tools.namespaces && (mounts.length > 0 || sandbox.netns !== undefined);
  const launch = launchOf(
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

/** How a further command is run beside a container's, which is the process `pid`. @throws Refusal */
export function launchOfExec(
  record: ContainerRecord,
  sandbox: SandboxRecord,
  around: LaunchSurroundings,
  {
    command,
    tty,
    pid,
    cgroups,
  }: { readonly command: readonly string[]; readonly tty: boolean; readonly pid: number; readonly cgroups: readonly string[] },
): Launch {
  const {
    machine: { tools },
    store,
  } = around;
  const config: ContainerConfig = { ...record.config, tty };
  const namespaces = record.namespaces === true;
  const credentials = credentialsOf(config, tools);
  const links = join(store.directoryOf(record), 'root');
  const environment = environmentOf(record.id, config, sandbox.config, {
    path: `${around.path}:${systemPath}`,
    root: existsSync(links) ? links : '',
    home: credentials.home,
  });
  const mounts = namespaces
    ? config.mounts.map(({ containerPath, hostPath }) => ({ from: hostPath, to: containerPath, readonly: false }))
    : [];
  refuseWhatCannotRun(command, environment, config, mounts);
  return launchOf(
    {
      command,
      environment,
      directory: workingDirectory(config),
      tty,
      credentials,
      cgroups,
      beside: { pid, namespaces },
      ...(sandbox.netns !== undefined && { netns: sandbox.netns }),
    },
    tools,
  );
}

const workingDirectory = ({ workingDir }: ContainerConfig) => (workingDir === undefined || workingDir === '' ? '/' : workingDir);

function refuseWhatCannotRun(
  [program = '']: readonly string[],
  environment: Readonly<Record<string, string>>,
  config: ContainerConfig,
  mounts: readonly BindMount[],
): void {
  const why = whyNotRunnable(program, { path: environment['PATH'] ?? systemPath, directory: workingDirectory(config), mounts });
  if (why !== undefined) throw new Refusal('FailedPrecondition', why);
}
