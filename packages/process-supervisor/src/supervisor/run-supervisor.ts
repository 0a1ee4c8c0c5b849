import { chmodSync, mkdirSync } from 'node:fs';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { closeInheritedDescriptors } from '@oarlock/primitives/os/inherited-descriptors';
import { socketPath } from '@oarlock/primitives/os/socket-path';
import type { RuntimeEvent } from '@oarlock/spi/runtime';
import type { ContainerLauncher } from '../containers/container-launcher.ts';
import { Containers } from '../containers/containers.ts';
import { PodStore, type StoredPod } from '../containers/pod-store.ts';
import type { HostServices } from '../containers/process-group.ts';
import type { CgroupManager } from '../host/cgroups.ts';
import { NetworkNamespaces } from '../host/network-namespaces.ts';
import { bootId } from '../host/process-table.ts';
import { protocolVersion, socketName, type SupervisorInfo } from '../protocol/supervisor-protocol.ts';
import { takeLock } from './generation-lock.ts';
import { Sandboxes } from './sandboxes.ts';
import { SupervisorServer } from './supervisor-server.ts';

export interface RuntimeServices {
  readonly host: HostServices;
  readonly cgroups: CgroupManager | undefined;
  readonly launcher: ContainerLauncher;
  readonly info: Pick<SupervisorInfo, 'isolation' | 'notes'>;
}
export interface SupervisorContext {
  readonly dataDir: string;
  readonly store: PodStore;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The umask of containers, as runc sets it. */
const containerUmask = 0o022;
/** The grace period of containers on SIGTERM. */
const shutdownGraceMs = 2_000;

/**
 * Runs the supervisor of a directory in this process, whose stderr is its log. Prints `ready`, or `taken` if another supervisor has the directory.
 * `open` determines how containers run; it is called when this process has the lock of the directory.
 */
export async function runSupervisor(
  { dataDir, idleMs }: { readonly dataDir: string; readonly idleMs: number },
  open: (context: SupervisorContext) => Promise<RuntimeServices>,
): Promise<void> {
  process.title = 'oarlock-supervisor';
  process.umask(containerUmask);
  closeInheritedDescriptors(); // containers would have them, and with a directory the files of the node
  const log = stderrLog();
  const clock = systemClock;
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  chmodSync(dataDir, 0o700);
  if (!takeLock(dataDir)) {
    process.stdout.write('taken\n');
    return;
  }
  const store = new PodStore(dataDir);
  const { host, cgroups, launcher, info } = await open({ dataDir, store, clock, log });
  const { pods, broken } = store.load();
  if (broken.length > 0) log.error({ broken }, 'removed pods whose records cannot be read');
  let server: SupervisorServer | undefined;
  const emit = (event: RuntimeEvent) => server?.emit(event);
  const containers = new Containers({ host, launcher, cgroups, store, log, emit, sandbox: (id) => sandboxes.get(id) });
  const sandboxes = new Sandboxes(store, { clock, containers, networkNamespaces: new NetworkNamespaces(), emit });
  adoptPods(pods, sandboxes, containers);
  server = new SupervisorServer({
    containers,
    sandboxes,
    clock,
    log,
    idleMs,
    sessions: { containers, host, sandbox: (id) => sandboxes.get(id) },
    info: { protocol: protocolVersion, pid: process.pid, ...info },
    onClose: () => process.exit(0),
  });
  handleSignals(sandboxes, server);
  // an error of one call must not end the supervisor and with it every container
  process.on('uncaughtException', (error) => log.error({ error: String(error.stack) }, 'uncaught exception in the supervisor'));
  await server.listen(dataDir, socketPath(dataDir, socketName));
  process.stdout.write('ready\n');
}

/** Logs JSON lines to stderr, which is a file next to the socket. */
function stderrLog(): Logger {
  const line = (level: string) => (fields: Record<string, unknown>, message: string) => {
    process.stderr.write(`${JSON.stringify({ time: new Date(systemClock.now()).toISOString(), level, ...fields, msg: message })}\n`);
  };
  const log: Logger = { debug() {}, info: line('info'), warn: line('warn'), error: line('error'), child: () => log };
  return log;
}

function adoptPods(pods: readonly StoredPod[], sandboxes: Sandboxes, containers: Containers): void {
  for (const pod of pods) {
    const rebooted = pod.sandbox.boot !== bootId();
    sandboxes.adopt(pod.sandbox);
    containers.adopt(pod.containers, rebooted);
  }
}

/** Stops the containers with a grace period when the machine shuts down, without waiting for a client. */
function handleSignals(sandboxes: Sandboxes, server: SupervisorServer): void {
  process.once('SIGTERM', () => {
    void Promise.allSettled(sandboxes.list().map(({ id }) => sandboxes.stop(id, shutdownGraceMs))).then(() => server.close());
  });
  process.on('SIGHUP', () => {});
  process.on('SIGINT', () => {});
}
