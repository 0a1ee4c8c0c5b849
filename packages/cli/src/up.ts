import { spawn } from 'node:child_process';
import { openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { featureFaults } from '@oarlock/api/component-helpers/feature-gates';
import { selectDefaultCluster } from '@oarlock/cluster/default-cluster';
import { readClusterFile } from '@oarlock/cluster/composition/read-cluster-file';
import { imageNotices } from '@oarlock/cluster/composition/runtime-reports';
import type { ClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { roleNames, type RoleName } from '@oarlock/cluster/cluster-file/cluster-schema';
import type { JoinedNode } from '@oarlock/cluster/composition/plan';
import { IdleCollector } from '@oarlock/cluster/process/idle-collector';
import { createDataDir, logFile } from '@oarlock/cluster/process/process-state';
import { run } from '@oarlock/cluster/run';
import { systemClock } from '@oarlock/primitives/clock';
import { CommandError, describeError, exitCodes } from './common/command-error.ts';
import { withoutToken } from './common/token-argument.ts';
import { adminLink } from './console/console-link.ts';
import { betterComposition } from './nodes/rootless/better-composition.ts';
import { enterDelegatedScope } from './nodes/delegated-scope.ts';
import { fileInside, insideVariable, sendPublishedPorts } from './nodes/rootless/inside-node.ts';
import { continueWithoutOutput } from './common/progress/output-errors.ts';
import { progress } from './common/progress/progress.ts';
import { readyMessage } from './common/ready-message.ts';

/** Time in milliseconds within which a second signal counts as the same key press, because both the terminal and npm forward Ctrl-C. */
const repeatedSignalMs = 1000;

export interface UpOptions {
  readonly file?: string;
  readonly dataDir: string;
  /** Name of the cluster, instead of that of the file. */
  readonly name?: string;
  readonly port?: number;
  readonly roles?: string;
  /** Feature gates that take precedence over those of the file. */
  readonly featureGates?: Readonly<Record<string, boolean>>;
  readonly nodeName?: string;
  /** URLs of the API servers, instead of the server of the kubeconfig. */
  readonly server?: readonly string[];
  readonly kubeconfig?: string;
  /** True for the first server of a cluster whose storage other servers will share. */
  readonly init?: boolean;
  readonly detach: boolean;
  /** Certificates of a node that joined with `oarlock node join`. */
  readonly joined?: Omit<JoinedNode, 'server'>;
}

function parseRoles(text: string | undefined): readonly RoleName[] | undefined {
  if (text === undefined) return undefined;
  const names = text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
  const unknown = names.filter((name) => !roleNames.includes(name as RoleName));
  if (unknown.length > 0 || names.length === 0) {
    throw new CommandError(
      `--roles: ${unknown.length > 0 ? `unknown role ${unknown.join(', ')}` : 'no role given'}; roles are ${roleNames.join(', ')}`,
      exitCodes.usage,
    );
  }
  return names as RoleName[];
}

/** Returns the file with further feature gates. @throws CommandError in upstream's words if the cluster cannot have one of them */
function withFeatureGates(file: ClusterFile, more: Readonly<Record<string, boolean>> = {}): ClusterFile {
  const featureGates = { ...file.spec.featureGates, ...more };
  const [fault] = featureFaults({ ...file.spec, featureGates });
  if (fault !== undefined) throw new CommandError(`--feature-gates: ${fault.message}`, exitCodes.usage);
  return { ...file, spec: { ...file.spec, featureGates } };
}

/** Runs a cluster, or the roles that the options name, until a signal stops it. */
export async function up(options: UpOptions): Promise<void> {
  if (options.detach && process.send === undefined) return detach(options);
  continueWithoutOutput();
  try {
    await upHere(options);
  } catch (error) {
    // the file that the output goes to may be on a full disk
    if (options.detach && process.connected) process.send?.({ failed: describeError(error) });
    throw error;
  }
}

async function upHere(options: UpOptions): Promise<void> {
  // V8's task marks a large heap on a time schedule and, when behind it, takes nearly all of the event loop's time until it is done. Without
  // the task, marking follows allocation, and most of it runs on V8's other threads.
  setFlagsFromString('--no-incremental-marking-task');
  const roles = parseRoles(options.roles);
  const dataDir = resolve(options.dataDir);
  if (process.env[insideVariable] === undefined && (roles ?? ['kubelet']).includes('kubelet')) await requestScope();
  const named = await clusterFileFor(options);
  const file = withFeatureGates(options.name === undefined ? named : { ...named, name: options.name }, options.featureGates);
  const inside = process.env[insideVariable];
  if (file.spec.rootless && inside === undefined) return upInNamespaces(options, file, roles ?? file.spec.roles);
  const remote = await remoteFor(options, dataDir, roles ?? file.spec.roles);
  const stop = new AbortController();
  const stopRequested = onStopSignal(stop);
  const running = await run({
    ownsProcess: true,
    onWarning: printWarning,
    file: inside === undefined ? file : fileInside(file),
    dataDir,
    signal: stop.signal,
    ...(roles && { roles }),
    ...(options.init !== undefined && { init: options.init }),
    ...(inside !== undefined ? { port: Number(inside) } : options.port !== undefined && { port: options.port }),
    ...(options.nodeName !== undefined && { nodeName: options.nodeName }),
    ...(remote && { remote }),
    ...(options.joined && remote && { joined: { ...options.joined, server: remote.server } }),
  }).catch((error: unknown) => {
    // a stop signal during the start is not an error
    if (stop.signal.aborted) return undefined;
    throw error;
  });
  if (running === undefined) {
    console.log('Stopped before it was ready.');
    return;
  }
  const collector = new IdleCollector({ clock: systemClock });
  collector.start();
  const notices = [...(await imageNotices(running.composition)), ...(await betterComposition(options))];
  const message = readyMessage(running, { dataDir, init: options.init, link: await adminLink(running), notices });
  const stopPublishing = inside === undefined ? undefined : sendPublishedPorts(running, (sent) => process.send?.(sent));
  if (inside === undefined) printReady(message);
  else process.send?.({ ready: message });
  await stopRequested;
  progress.step('stopping the cluster');
  collector.stop();
  await stopPublishing?.();
  await running.stop();
  if (process.connected) process.disconnect();
}

async function requestScope(): Promise<void> {
  const problem = await enterDelegatedScope();
  if (problem !== undefined) printWarning(`the systemd of the user made no scope, so that limits of pods are not enforced: ${problem}`);
}

async function upInNamespaces(options: UpOptions, file: ClusterFile, roles: readonly RoleName[]): Promise<void> {
  if (process.platform !== 'linux') throw new CommandError(`spec.rootless: ${process.platform} has no namespaces`, exitCodes.usage);
  if (process.geteuid?.() === 0)
    throw new CommandError('spec.rootless: this process is root, whose node needs no namespaces; remove the setting', exitCodes.usage);
  if (!roleNames.every((role) => roles.includes(role)))
    throw new CommandError('spec.rootless: a node without root needs all roles in one process', exitCodes.usage);
  const { upWithoutRoot } = await import('./nodes/rootless/up-without-root.ts');
  await upWithoutRoot({ file, dataDir: resolve(options.dataDir), port: options.port, onReady: printReady, onWarning: printWarning });
}

function printReady(message: string): void {
  progress.stop();
  if (process.connected) {
    process.send?.({ ready: message });
    process.disconnect();
  } else {
    console.log(message);
    // a detached process continues when the command that waits for it was interrupted
    if (process.send === undefined) console.log('\nStop it with Ctrl-C.');
  }
}

/** Prints a warning at once, also in the process that waits for a detached process: a cluster with the warning may never be ready. */
function printWarning(warning: string): void {
  if (process.connected) process.send?.({ warning });
  else console.log(`Warning: ${warning}`);
}

/** Prints a line before the cluster is ready, also in the process that waits for a detached process. */
function printNotice(notice: string): void {
  if (process.connected) process.send?.({ notice });
  else console.log(notice);
}

/** Aborts `stop` on the first signal and ends the process on a later one. The promise resolves on the first signal. */
function onStopSignal(stop: AbortController): Promise<void> {
  return new Promise<void>((resolveStop) => {
    let firstSignalAt: number | undefined;
    const onSignal = () => {
      if (firstSignalAt !== undefined && performance.now() - firstSignalAt > repeatedSignalMs) process.exit(exitCodes.failed);
      firstSignalAt ??= performance.now();
      stop.abort();
      resolveStop();
    };
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);
  });
}

async function clusterFileFor({ file }: UpOptions): Promise<ClusterFile> {
  if (file !== undefined) return readClusterFile(file);
  const { file: chosen, reason } = await selectDefaultCluster({ besidesOthers: true });
  printNotice(`Composition ${chosen.name}: ${reason}`);
  return chosen;
}

async function remoteFor({ kubeconfig, server }: UpOptions, dataDir: string, roles: readonly RoleName[]) {
  if (roles.includes('apiserver')) return undefined;
  if (kubeconfig === undefined)
    throw new CommandError(
      'a process without the apiserver role requires --kubeconfig FILE (and --server URL, once for each API server, if the file does not name the servers)',
      exitCodes.usage,
    );
  const { remoteProcess } = await import('@oarlock/cluster/remote-access');
  return remoteProcess(kubeconfig, { dataDir, servers: server });
}

/** What a detached process sends to the command that waits for it. */
interface DetachedMessage {
  readonly ready?: string;
  readonly warning?: string;
  readonly notice?: string;
  /** Why the process ends before it is ready. */
  readonly failed?: ReturnType<typeof describeError>;
}

/** Runs the same command in a detached process, and returns when the detached process reports that it is ready. A join has used its token before. */
async function detach(options: UpOptions): Promise<void> {
  const dataDir = resolve(options.dataDir);
  await createDataDir(dataDir);
  const output = `${logFile(dataDir)}.out`;
  const out = openSync(output, 'w', 0o600);
  const child = spawn(process.execPath, [...process.execArgv, ...withoutToken(process.argv.slice(1))], {
    detached: true,
    stdio: ['ignore', out, out, 'ipc'],
  });
  let failure: DetachedMessage['failed'];
  const result = await new Promise<string | number>((done) => {
    child.on('message', ({ ready, warning, notice, failed }: DetachedMessage) => {
      if (notice !== undefined) printNotice(notice);
      if (warning !== undefined) printWarning(warning);
      if (ready !== undefined) done(ready);
      failure ??= failed;
    });
    child.once('exit', (code) => {
      // the last message may arrive after the end of the process
      if (child.connected) child.once('disconnect', () => done(code ?? exitCodes.failed));
      else done(code ?? exitCodes.failed);
    });
    child.once('error', () => done(exitCodes.failed));
  });
  if (typeof result === 'number') {
    if (failure !== undefined) throw new CommandError(failure.message, failure.exitCode);
    const message = (await readFile(output, 'utf8')).trim();
    throw new CommandError(
      message === '' ? `the process ended before the cluster was ready; see ${output}` : message,
      result === 0 ? exitCodes.failed : result,
    );
  }
  child.unref();
  console.log(result);
}
