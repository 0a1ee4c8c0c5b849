import { Socket, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { EventBroadcaster } from '@oarlock/client/events/event-broadcaster';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { loopbackClient, LoopbackTransport } from '@oarlock/client/loopback-client';
import { metricsText } from '@oarlock/kernel/metrics-text';
import { errorText } from '@oarlock/primitives/error-text';
import { systemClock } from '@oarlock/primitives/clock';
import { Process } from '@oarlock/spi/process';
import type { Health, Role } from '@oarlock/spi/role';
import type { Workers } from '@oarlock/spi/workers';
import { openTracing } from '@oarlock/tracing/tracing';
import { certificateDays } from '../cluster-file/certificate-validity.ts';
import { compose, type Composition } from '../composition/compose.ts';
import { guardProcess } from '../hosting/guard-process.ts';
import { endWithParent } from '../hosting/thread/thread-port.ts';
import { apiServer } from '../identity/component.ts';
import { openKeys, type KeyFiles } from '../pki/keys.ts';
import { openLog } from '../process/log.ts';
import { IdleCollector } from '../process/idle-collector.ts';
import { logFile } from '../process/process-state.ts';
import { spanForwarding } from '../process/span-forwarding.ts';
import { ProcessCalls } from './process-calls.ts';
import { RemoteStorage } from './storage/remote-storage.ts';
import { planWorker } from './plan-worker.ts';
import { storageDescriptor, type FromWorkerMessage, type ToWorkerMessage, type WorkerData } from './worker-protocol.ts';

/** The part of the process' port and connections that a worker has. */
class WorkerConnections implements Workers {
  readonly isWorker = true;
  readonly count: number;
  readonly #address: AddressInfo;
  readonly #calls: ProcessCalls;
  #accept: ((socket: Socket) => void) | undefined;

  constructor({ count, address }: WorkerData, calls: ProcessCalls) {
    this.count = count;
    this.#address = address;
    this.#calls = calls;
  }

  listen(_address: string, _port: number, accept: (socket: Socket) => void): Promise<AddressInfo> {
    this.#accept = accept;
    return Promise.resolve(this.#address);
  }

  stopAccepting(): void {
    this.#accept = undefined;
  }

  async otherMetrics(): Promise<readonly string[]> {
    return (await this.#calls.call('otherMetrics')) as readonly string[];
  }

  workers(): readonly [] {
    return [];
  }

  receive(socket: Socket): void {
    socket.once('close', () => send({ type: 'closed' }));
    if (this.#accept === undefined) socket.destroy();
    else this.#accept(socket);
  }
}

const send = (message: FromWorkerMessage): void => {
  // without the first process this process ends
  if (process.connected) process.send?.(message);
};

/** Runs a worker until the first process stops it or ends. @throws Error in a process that `WorkerProcess` did not start */
export async function runWorker(): Promise<void> {
  if (process.send === undefined) throw new Error('a worker must run in a process that the API server started');
  endWithParent();
  setFlagsFromString('--no-incremental-marking-task'); // as the first process
  const stop = new AbortController();
  const running: RunningWorker = {};
  let connections: WorkerConnections | undefined;
  const calls = new ProcessCalls(send, {
    ping: () => undefined,
    metrics: async () => (await metricsText(running.composition?.host.get(Process).registries() ?? [])).text,
    reloadKeys: () => running.keyFiles?.reload(),
  });
  const data = await new Promise<WorkerData>((resolve) => {
    process.on('message', (message, handle) => {
      const received = message as ToWorkerMessage;
      if (received.type === 'start') resolve(received.data);
      else if (received.type === 'stop') stop.abort();
      else if (received.type === 'connection') {
        // undefined if the client had closed the connection
        if (handle instanceof Socket) connections?.receive(handle);
        else send({ type: 'closed' });
      } else calls.receive(received);
    });
  });
  connections = new WorkerConnections(data, calls);
  try {
    const stopServer = await startServer(data, { calls, connections, running, signal: stop.signal });
    send({ type: 'ready' });
    new IdleCollector({ clock: systemClock }).start();
    await new Promise<void>((resolve) => {
      if (stop.signal.aborted) resolve();
      else stop.signal.addEventListener('abort', () => resolve(), { once: true });
    });
    await stopServer();
    process.exit(0);
  } catch (error) {
    if (!stop.signal.aborted) send({ type: 'failed', message: errorText(error) });
    process.exit(1);
  }
}

/** The parts of a worker that calls of the first process use; undefined until they exist. */
interface RunningWorker {
  composition?: Composition;
  keyFiles?: KeyFiles;
}

interface WorkerContext {
  readonly running: RunningWorker;
  readonly calls: ProcessCalls;
  readonly connections: WorkerConnections;
  readonly signal: AbortSignal;
}

/** Starts the API server of a worker. Returns a function that stops it. */
async function startServer(data: WorkerData, { calls, connections, running, signal }: WorkerContext): Promise<() => Promise<void>> {
  const { dataDir, file } = data;
  const clock = systemClock;
  const { log: processLog, check: checkLog, close } = openLog(logFile(dataDir), file.spec.log.level);
  const log = processLog.child({ worker: data.name });
  const storage = new RemoteStorage(new Socket({ fd: storageDescriptor }), data.storage.traits, { skips: data.storage.skips });
  const plan = await planWorker(data, { storage, calls });
  const issuer = file.spec.serviceAccountTokens.issuer ?? `https://kubernetes.default.svc.${plan.facts.domain}`;
  const keyFiles = await openKeys(join(dataDir, 'pki'), issuer, { days: certificateDays(file.spec) });
  running.keyFiles = keyFiles;
  keyFiles.follow(signal, (error) => log.error({ err: error }, 'could not read the keys of service account tokens'));
  const loopback = new LoopbackTransport();
  const client = loopbackClient(loopback, apiServer.identity, apiServer);
  const { enabled, keep, otlp } = file.spec.tracing;
  const tracing = openTracing({ enabled, keep, otlp, clock, log, forward: spanForwarding(client) });
  const informers = new SharedInformerFactory({ client, log, clock });
  const events = new EventBroadcaster({ client, log, clock, random: Math.random });
  const access = { keys: keyFiles.keys, client, informers, events, loopback, spans: tracing.store };
  const composition = compose(plan, access, {
    ...{ dataDir, clock, log, checkLog, workers: connections },
    otherRoles: data.roles.map((name) => remoteRole(name, calls)),
    tracer: (plugin) => tracing.tracer(plugin),
  });
  running.composition = composition;
  const { drainSeconds } = file.spec.settings.apiserver;
  const stopGuard = guardProcess({ planned: plan.plugins, hosted: () => composition.host.plugins, log, signal, drainSeconds });
  informers.start();
  await composition.start(signal);
  await Promise.all(composition.roles().map((role) => role.waitUntilReady?.(signal)));
  return async () => {
    await composition.stop();
    await tracing.flush();
    events.stop();
    informers.stop();
    await stopGuard();
    await close();
  };
}

/** A role of the first process, for the health checks of its components. */
const remoteRole = (name: string, calls: ProcessCalls): Role => ({
  name,
  checkHealth: async () => (await calls.call('roleHealth', name)) as Health,
});
