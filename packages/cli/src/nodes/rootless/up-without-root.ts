import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { freePort } from '@oarlock/cluster/process/host-claims';
import { supervisorArguments } from '@oarlock/process-supervisor/client/supervisor-launch';
import { findProgram } from '@oarlock/process-supervisor/host/host-tools';
import { systemClock } from '@oarlock/primitives/clock';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { programPath } from '@oarlock/primitives/os/bundled-program';
import { socketPath } from '@oarlock/primitives/os/socket-path';
import { CommandError, exitCodes } from '../../common/command-error.ts';
import { HostRelay } from './host-relay.ts';
import { insideVariable, localAddresses, type InsideMessage } from './inside-node.ts';
import { nodeAddress } from './node-address.ts';
import { openNodeNamespaces, releaseNodeNamespaces, type NodeNamespaces } from './node-namespaces.ts';
import { placesOf } from './relay/places.ts';
import { endEarlierTapDevice, findTapProgram, startTapDevice, type TapDevice } from './tap-device.ts';
import { loadUplinkRules } from './uplink-rules.ts';
import type { UplinkOptions } from './uplink.ts';

export interface WithoutRootOptions {
  readonly file: ClusterFile;
  readonly dataDir: string;
  readonly port?: number | undefined;
  onReady(message: string): void;
  onWarning(warning: string): void;
}

const defaultPort = 6443;
const killed = 128 + 9;

/** Runs this command again in the namespaces of the node, and the relay between them and the host. Resolves when that process ends. */
export async function upWithoutRoot(options: WithoutRootOptions): Promise<void> {
  const directory = join(options.dataDir, 'node');
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const namespaces = await openNodeNamespaces(directory);
  const sockets = { host: socketPath(directory, 'host.sock'), uplink: join(directory, 'uplink.sock') };
  const places = placesOf((await readIfExists('/proc/self/limits')) ?? '');
  const relay = new HostRelay({
    clock: systemClock,
    places,
    uplink: socketPath(directory, 'uplink.sock'),
    onWarning: (warning) => options.onWarning(warning),
  });
  let uplink: ChildProcess | undefined;
  let tap: TapDevice | undefined;
  let isReady = false;
  let isStopped = false;
  try {
    await rm(sockets.host, { force: true });
    await relay.listen(sockets.host);
    const port = await publishServer(relay, directory, options);
    tap = await openTapDevice(directory, namespaces, options);
    await loadUplinkRules(namespaces.enterUplink, { wayOut: tap === undefined ? 'relay' : 'tap', places });
    uplink = await startUplink(namespaces, { host: join(directory, 'host.sock'), uplink: sockets.uplink, places });
    const child = startInside(namespaces, port);
    for (const part of [uplink, tap?.process]) part?.once('exit', () => child.kill('SIGTERM'));
    child.on('message', ({ ready, warning, published }: InsideMessage) => {
      if (ready !== undefined) {
        isReady = true;
        options.onReady(ready);
      }
      if (warning !== undefined) options.onWarning(warning);
      if (published !== undefined) void relay.publishServices(published);
    });
    const code = await ended(child);
    isStopped = code === exitCodes.done;
    process.exitCode = code;
  } finally {
    // a node that did not start has no programs for which its namespaces must stay
    if (isStopped || (namespaces.isNew && !isReady)) await releaseNodeNamespaces(directory);
    for (const part of [uplink, tap?.process]) {
      part?.removeAllListeners('exit');
      part?.kill('SIGKILL');
    }
    await relay.close();
  }
}

/** Publishes the API server at the port of the command line or the file; otherwise at that of the last start, at 6443 or at a free port. */
async function publishServer(relay: HostRelay, directory: string, { file, port: requested }: WithoutRootOptions): Promise<number> {
  const { address, port: configured } = file.spec.server;
  const path = join(directory, 'port');
  const fixed = requested ?? configured;
  const saved = Number(await readIfExists(path));
  const preferred = fixed ?? (saved > 0 ? saved : defaultPort);
  // the node's side has the same port, so that one kubeconfig is valid on both
  const publish = async (port: number) => {
    const own = port === 0 ? await freePort(address) : port;
    for (const host of localAddresses.has(address) ? [address] : [address, '127.0.0.1'])
      await relay.publish({ address: host, port: own, target: { protocol: 'tcp', address: nodeAddress, port: own } });
    return own;
  };
  try {
    return await publish(preferred);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    if (fixed !== undefined || saved > 0)
      throw new CommandError(
        `port ${preferred} of ${address} is in use by another program: use another port with \`--port N\``,
        undefined,
        {
          cause: error,
        },
      );
    const port = await publish(0);
    await writeAtomic(path, String(port));
    return port;
  }
}

/** Connects the network of the node with that of the host by a TAP device. Returns undefined if no program for it is installed or starts: the relay does it then. */
async function openTapDevice(
  directory: string,
  namespaces: NodeNamespaces,
  { onWarning }: WithoutRootOptions,
): Promise<TapDevice | undefined> {
  await endEarlierTapDevice(directory);
  const program = await findTapProgram();
  if (program === undefined) return undefined;
  return startTapDevice(directory, namespaces, program).catch((error: Error) => {
    onWarning(`traffic leaves the node by the relay of Oarlock, because ${error.message}`);
    return undefined;
  });
}

async function startUplink({ enterUplink }: NodeNamespaces, options: UplinkOptions): Promise<ChildProcess> {
  const program = { entry: programPath('@oarlock/cli/nodes/rootless/uplink', import.meta.url), options: { ...options, dataDir: '' } };
  const child = start([...enterUplink, ...withParent, process.execPath, ...supervisorArguments(program)], {});
  const exited = once(child, 'exit').then(([code]) => {
    throw new CommandError(`the relay of the node ended with ${code}`);
  });
  await Promise.race([once(child, 'message'), exited]);
  exited.catch(() => {}); // an exit after the start ends the node
  return child;
}

function startInside({ enterNode }: NodeNamespaces, port: number): ChildProcess {
  const command = [...withParent, process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const child = start([...enterNode, ...inSameDirectory(), ...command], { [insideVariable]: String(port) });
  // a terminal sends its signals to both processes, which the other one counts once
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal));
  return child;
}

/** The kernel ends a process together with this one, however it ends. */
const withParent: readonly string[] = [findProgram('setpriv') ?? 'setpriv', '--pdeathsig', 'KILL', '--'];

/** A process that enters a mount namespace starts in `/`, and the paths of the command line may be relative. */
const inSameDirectory = (): readonly string[] => [findProgram('env') ?? 'env', `--chdir=${process.cwd()}`];

function start([file = '', ...args]: readonly string[], environment: Readonly<Record<string, string>>): ChildProcess {
  return spawn(file, args, { stdio: ['inherit', 'inherit', 'inherit', 'ipc'], env: { ...process.env, ...environment } });
}

async function ended(child: ChildProcess): Promise<number> {
  const [code] = (await once(child, 'exit')) as [number | null];
  return code ?? killed;
}
