// A process of its own, started by the driver when the first pod is: `node supervisor.js OPTIONS`, OPTIONS being JSON of
// SupervisorOptions. Prints `ready`, or `taken` when another supervisor has the directory. Loads little: its start is part
// of the first pod's.
import { mkdirSync, chmodSync } from 'node:fs';
import { join } from 'node:path';
import { systemClock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { ControlGroups } from './cgroups.ts';
import { Containers, type Surroundings } from './containers.ts';
import { takeLock } from './generation-lock.ts';
import { PipeStock } from './pipes.ts';
import { PodStore } from './pod-store.ts';
import { bootId } from './process-table.ts';
import { protocolVersion } from './protocol.ts';
import { Sandboxes } from './sandboxes.ts';
import { socketPath } from './socket-path.ts';
import { StraySweeper } from './stray-sweeper.ts';
import { SupervisorServer } from './supervisor-server.ts';
import { findTools, notesOf } from './tools.ts';

export interface SupervisorOptions {
  readonly dataDir: string;
  /** Goes before the system's directories on the PATH of containers. */
  readonly path: string;
  readonly nice: number;
  readonly cgroups: boolean;
  readonly namespaces: boolean;
  readonly idleMs: number;
}

/** Structured lines on stderr, which is a file beside the socket. */
function stderrLog(): Logger {
  const line = (level: string) => (fields: Record<string, unknown>, message: string) => {
    process.stderr.write(`${JSON.stringify({ time: new Date(systemClock.now()).toISOString(), level, ...fields, msg: message })}\n`);
  };
  const log: Logger = { debug() {}, info: line('info'), warn: line('warn'), error: line('error'), child: () => log };
  return log;
}

async function main({ dataDir, path, nice, cgroups: wantsCgroups, namespaces, idleMs }: SupervisorOptions): Promise<void> {
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
  const cgroups = wantsCgroups ? ControlGroups.open(clock) : undefined;
  const store = new PodStore(dataDir);
  const { pods, broken } = store.load();
  if (broken.length > 0) log.error({ broken }, 'records of pods could not be read and were removed');
  let server: SupervisorServer | undefined;
  const emit: Surroundings['emit'] = (event) => server?.emit(event);
  const machine = { tools, clock, pipes: tools.mkfifo === undefined ? undefined : new PipeStock(join(dataDir, 'pipes'), tools.mkfifo) };
  const around: Surroundings = {
    machine,
    cgroups,
    store,
    log,
    path,
    nice,
    emit,
    sweeper: new StraySweeper(clock),
    sandbox: (id) => sandboxes.get(id),
  };
  const containers = new Containers(around);
  const sandboxes = new Sandboxes(store, clock, containers, emit);
  for (const pod of pods) {
    const machineIsNew = pod.sandbox.boot !== bootId();
    sandboxes.adopt(pod.sandbox);
    containers.adopt(pod.containers, machineIsNew);
  }
  server = new SupervisorServer({
    containers,
    sandboxes,
    clock,
    log,
    idleMs,
    sessions: { containers, machine, sandbox: (id) => sandboxes.get(id) },
    info: { protocol: protocolVersion, pid: process.pid, notes: notesOf(tools, cgroups !== undefined) },
    ended: () => process.exit(0),
  });
  // the machine goes down: with grace for the containers, and without the client being asked
  process.once('SIGTERM', () => {
    void Promise.allSettled(sandboxes.list().map(({ id }) => sandboxes.stop(id, 2000))).then(() => server?.close());
  });
  process.on('SIGHUP', () => {});
  process.on('SIGINT', () => {});
  // one fault is no reason to take every container down: it is in the log
  process.on('uncaughtException', (error) => log.error({ error: String(error.stack) }, 'a fault of the supervisor'));
  await server.listen(dataDir, socketPath(dataDir));
  process.stdout.write('ready\n');
}

await main(JSON.parse(process.argv[2] ?? '{}') as SupervisorOptions);
