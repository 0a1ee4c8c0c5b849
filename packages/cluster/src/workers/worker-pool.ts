import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { Backoff } from '@oarlock/primitives/backoff';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { WorkerHealth, Workers } from '@oarlock/spi/workers';
import type { WorkerProcess } from './worker-process.ts';

type Worker = Pick<WorkerProcess, 'pid' | 'isReady' | 'connections' | 'acceptsConnections' | 'ready' | 'ended' | 'calls' | 'pass'> &
  Pick<WorkerProcess, 'requestStop' | 'kill'>;

export interface WorkerPoolOptions {
  /** The number of processes that serve the API, this one included. */
  readonly count: number;
  /** The time that a worker has to finish its requests when it stops. */
  readonly drainSeconds: number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
}

/** Starts a worker; called again for each restart. */
export type StartWorker = (name: string, address: AddressInfo) => Worker;

const backlog = 1024;
const keepAliveInitialDelay = 15_000;
const restartDelays = { firstMs: 500, longestMs: 30_000, jitter: 0.1 };
/** A worker that ran for this time is restarted with the first delay again. */
const stableMs = 60_000;
/** A worker must answer within this time: one that is blocked or stopped would hold its connections. */
const pingIntervalMs = 5_000;
const pingTimeoutMs = 20_000;
const metricsTimeoutMs = 5_000;
const stopMarginMs = 3_000;

/** The place of one worker: a process, and its successors. */
interface Seat {
  readonly name: string;
  readonly backoff: Backoff;
  worker: Worker | undefined;
  reason: string;
  timers: readonly Timer[];
  stopped: Promise<void>;
}

/**
 * The processes that serve the API with this process. This process listens and passes each connection to the process with the fewest, so that
 * connections of HTTP/2, which last, are distributed evenly.
 */
export class WorkerPool implements Workers {
  readonly isWorker = false;
  readonly count: number;
  readonly #options: WorkerPoolOptions;
  readonly #seats: readonly Seat[];
  #server: Server | undefined;
  #startWorker: StartWorker | undefined;
  #ownConnections = 0;
  #stopping = false;

  constructor(options: WorkerPoolOptions) {
    this.#options = options;
    this.count = options.count;
    this.#seats = Array.from({ length: options.count - 1 }, (_, index) => ({
      name: `worker-${index + 2}`,
      backoff: new Backoff({ ...restartDelays, random: options.random }),
      worker: undefined,
      reason: 'starting',
      timers: [],
      stopped: Promise.resolve(),
    }));
  }

  async listen(address: string, port: number, accept: (socket: Socket) => void): Promise<AddressInfo> {
    const server = createServer({ pauseOnConnect: true, noDelay: true, keepAlive: true, keepAliveInitialDelay });
    this.#server = server;
    server.on('connection', (socket) => this.#distribute(socket, accept));
    server.listen({ host: address, port, backlog });
    await once(server, 'listening');
    server.on('error', (error) => this.#options.log.error({ err: error }, 'the listener of the API server failed'));
    return server.address() as AddressInfo;
  }

  stopAccepting(): void {
    this.#server?.close();
  }

  workers(): readonly WorkerHealth[] {
    return this.#seats.map(({ name, worker, reason }) => ({
      name,
      health: worker?.isReady === true ? { healthy: true } : { healthy: false, reason },
    }));
  }

  async otherMetrics(): Promise<readonly string[]> {
    return this.metricsOfWorkers(undefined);
  }

  /** Returns the metrics of all workers but `except`. */
  async metricsOfWorkers(except: string | undefined): Promise<readonly string[]> {
    const ready = this.#seats.flatMap(({ name, worker }) => (worker?.isReady === true && name !== except ? [worker] : []));
    const texts = await Promise.all(ready.map((worker) => this.#metricsOf(worker)));
    return texts.filter((text) => text !== undefined);
  }

  /** Makes all workers use changed keys. A worker that ends meanwhile reads them when it is started again. */
  async reloadKeys(): Promise<void> {
    const running = this.#seats.flatMap(({ worker }) => worker ?? []);
    await Promise.all(running.map((worker) => Promise.race([worker.calls.call('reloadKeys'), worker.ended])));
  }

  /** Starts the workers, and starts those that end again. Resolves when each is ready or has ended once. */
  async start(startWorker: StartWorker): Promise<void> {
    this.#startWorker = startWorker;
    await Promise.all(this.#seats.map((seat) => this.#start(seat)));
  }

  /** Stops the workers: they finish their requests within the drain time, and are then killed. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all(
      this.#seats.map(async (seat) => {
        for (const timer of seat.timers) timer.cancel();
        const { worker } = seat;
        if (worker === undefined) return;
        worker.requestStop();
        const timer = this.#options.clock.after(this.#options.drainSeconds * 1000 + stopMarginMs, () => worker.kill());
        await worker.ended;
        timer.cancel();
        await seat.stopped;
      }),
    );
  }

  async #start(seat: Seat): Promise<void> {
    const { clock, log } = this.#options;
    if (this.#stopping || this.#startWorker === undefined) return;
    const worker = this.#startWorker(seat.name, this.#server?.address() as AddressInfo);
    seat.worker = worker;
    seat.timers = [];
    seat.stopped = worker.ended.then((reason) => this.#ended(seat, reason));
    try {
      await worker.ready;
    } catch {
      return; // `#ended` handles it
    }
    seat.timers = [clock.after(stableMs, () => seat.backoff.reset())];
    this.#ping(seat, worker);
    log.info({ worker: seat.name, pid: worker.pid }, 'a worker of the API server is ready');
  }

  #ended(seat: Seat, reason: string): void {
    const { clock, log } = this.#options;
    for (const timer of seat.timers) timer.cancel();
    seat.worker = undefined;
    seat.reason = reason;
    if (this.#stopping) return;
    const retryMs = Math.round(seat.backoff.next());
    log.error({ worker: seat.name, reason, retryMs }, 'a worker of the API server ended; it is started again');
    seat.timers = [clock.after(retryMs, () => void this.#start(seat))];
  }

  #ping(seat: Seat, worker: Worker): void {
    const { clock, log } = this.#options;
    const timeout = clock.after(pingTimeoutMs, () => {
      log.error({ worker: seat.name, pid: worker.pid }, 'a worker of the API server does not respond; it is killed');
      worker.kill();
    });
    seat.timers = [...seat.timers.slice(0, 1), timeout];
    worker.calls.call('ping').then(
      () => {
        timeout.cancel();
        if (seat.worker === worker && !this.#stopping)
          seat.timers = [...seat.timers.slice(0, 1), clock.after(pingIntervalMs, () => this.#ping(seat, worker))];
      },
      () => timeout.cancel(), // it has ended
    );
  }

  async #metricsOf(worker: Worker): Promise<string | undefined> {
    let timer: Timer | undefined;
    const timeout = new Promise<undefined>((resolve) => {
      timer = this.#options.clock.after(metricsTimeoutMs, () => resolve(undefined));
    });
    const text = worker.calls.call('metrics').catch(() => undefined); // it has ended
    const first = await Promise.race([text as Promise<string | undefined>, timeout]);
    timer?.cancel();
    return first;
  }

  /** Gives a connection to the process with the fewest; this process, which also commits, comes last among equals. */
  #distribute(socket: Socket, accept: (socket: Socket) => void): void {
    let target: Worker | undefined;
    for (const { worker } of this.#seats)
      if (worker?.acceptsConnections === true && (target === undefined || worker.connections < target.connections)) target = worker;
    if (target !== undefined && target.connections <= this.#ownConnections) {
      target.pass(socket);
      return;
    }
    this.#ownConnections += 1;
    socket.once('close', () => {
      this.#ownConnections -= 1;
    });
    accept(socket);
  }
}
