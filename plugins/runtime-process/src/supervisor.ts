// The program of the supervisor process, which the driver starts with the first pod: `node supervisor.js OPTIONS`, OPTIONS being JSON of
// SupervisorOptions. Prints `ready`, or `taken` if another supervisor has the directory. It imports little, because its start
// delays the first pod.
import { mkdirSync, chmodSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { CgroupManager } from './host/cgroups.ts';
import { Containers, type ContainerServices } from './containers/containers.ts';
import { takeLock } from './supervisor/generation-lock.ts';
import { PipeStock } from './containers/pipes.ts';
import { PodStore, type StoredPod } from './containers/pod-store.ts';
import { bootId } from './host/process-table.ts';
import { protocolVersion } from './protocol/supervisor-protocol.ts';
import { Sandboxes } from './supervisor/sandboxes.ts';
import { socketPath } from './protocol/socket-path.ts';
import { StrayProcessSweeper } from './containers/stray-process-sweeper.ts';
import { SupervisorServer } from './supervisor/supervisor-server.ts';
import { findTools, limitationNotes } from './host/host-tools.ts';
import { hiddenDirectories } from './isolation/isolation.ts';
import { probeIsolation } from './containers/isolation-probe.ts';

export interface SupervisorOptions {
  readonly dataDir: string;
  /** Precedes the system's directories on the PATH of containers. */
  readonly path: string;
  readonly nice: number;
  readonly cgroups: boolean;
  readonly namespaces: boolean;
  readonly isolation: 'auto' | 'required' | 'none';
  /** Directories besides `dataDir` that isolated containers do not see. */
  readonly hiddenPaths: readonly string[];
  readonly idleMs: number;
}

/** Logs JSON lines to stderr, which is a file next to the socket. */
function stderrLog(): Logger {
  const line = (level: string) => (fields: Record<string, unknown>, message: string) => {
    process.stderr.write(`${JSON.stringify({ time: new Date(systemClock.now()).toISOString(), level, ...fields, msg: message })}\n`);
  };
  const log: Logger = { debug() {}, info: line('info'), warn: line('warn'), error: line('error'), child: () => log };
  return log;
}

async function main(options: SupervisorOptions): Promise<void> {
  const { dataDir, path, nice, cgroups: useCgroups, namespaces, idleMs } = options;
  process.title = 'oarlock-supervisor';
  const log = stderrLog();
  const clock = systemClock;
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  chmodSync(dataDir, 0o700);
  if (!takeLock(dataDir)) {
    process.stdout.write('taken\n');
    return;
  }
  const tools = await findTools({ namespaces });
  const hidden = hiddenDirectories(options);
  const isolation = await probeIsolation({ tools, hidden, dataDir, isolation: options.isolation, namespaces });
  const noIsolation = isolation.mode === 'none' ? isolation.reason : undefined;
  const cgroups = useCgroups ? CgroupManager.open(clock) : undefined;
  const store = new PodStore(dataDir);
  const { pods, broken } = store.load();
  if (broken.length > 0) log.error({ broken }, 'removed pods whose records cannot be read');
  let server: SupervisorServer | undefined;
  const emit: ContainerServices['emit'] = (event) => server?.emit(event);
  const host = { tools, clock, pipes: tools.mkfifo === undefined ? undefined : new PipeStock(join(dataDir, 'pipes'), tools.mkfifo) };
  const services: ContainerServices = {
    host,
    cgroups,
    store,
    log,
    path,
    nice,
    isolation,
    requiresIsolation: options.isolation === 'required',
    hidden,
    emit,
    sweeper: new StrayProcessSweeper(clock),
    sandbox: (id) => sandboxes.get(id),
  };
  const containers = new Containers(services);
  const sandboxes = new Sandboxes(store, clock, containers, emit);
  adoptPods(pods, sandboxes, containers);
  server = new SupervisorServer({
    containers,
    sandboxes,
    clock,
    log,
    idleMs,
    sessions: { containers, host, sandbox: (id) => sandboxes.get(id) },
    info: {
      protocol: protocolVersion,
      pid: process.pid,
      isolation,
      notes: limitationNotes(tools, { cgroups: cgroups !== undefined, noIsolation }),
    },
    onClose: () => process.exit(0),
  });
  handleSignals(sandboxes, server);
  // an error of one call must not end the supervisor and with it every container
  process.on('uncaughtException', (error) => log.error({ error: String(error.stack) }, 'uncaught exception in the supervisor'));
  await server.listen(dataDir, socketPath(dataDir));
  process.stdout.write('ready\n');
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

/** The grace period of containers on SIGTERM. */
const shutdownGraceMs = 2_000;

await main(JSON.parse(process.argv[2] ?? '{}') as SupervisorOptions);
