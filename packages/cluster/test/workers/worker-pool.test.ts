import { once } from 'node:events';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { silentLogger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import { ProcessCalls } from '../../src/workers/process-calls.ts';
import { WorkerPool } from '../../src/workers/worker-pool.ts';

/** A worker without a process. */
class FakeWorker {
  readonly pid = 1;
  isReady = true;
  acceptsConnections = true;
  connections = 0;
  killed = 0;
  end: (reason: string) => void = () => undefined;
  onPassed: () => void = () => undefined;
  readonly ready = Promise.resolve();
  readonly ended = new Promise<string>((resolve) => {
    this.end = (reason) => {
      this.isReady = false;
      this.acceptsConnections = false;
      resolve(reason);
    };
  });
  readonly calls: ProcessCalls;

  constructor(answer: boolean) {
    this.calls = new ProcessCalls((message) => {
      if (answer && message.type === 'call') this.calls.receive({ type: 'result', id: message.id, value: message.method });
    }, {});
  }
  pass(socket: Socket): void {
    this.connections += 1;
    socket.destroy();
    this.onPassed();
  }
  requestStop(): void {
    this.end('stopped');
  }
  kill(): void {
    this.killed += 1;
    this.end('killed');
  }
}

function poolOf(count: number, { answer = true } = {}) {
  const clock = new FakeClock();
  const pool = new WorkerPool({ count, drainSeconds: 5, clock, log: silentLogger, random: () => 0 });
  const started: FakeWorker[] = [];
  const start = () =>
    pool.start(() => {
      const worker = new FakeWorker(answer);
      started.push(worker);
      return worker;
    });
  return { clock, pool, started, start };
}

describe('WorkerPool', () => {
  it('passes each connection to the process with the fewest', async () => {
    const { pool, started, start } = poolOf(3);
    const own: Socket[] = [];
    let onOwn: () => void = () => undefined;
    const address: AddressInfo = await pool.listen('127.0.0.1', 0, (socket) => {
      own.push(socket);
      onOwn();
    });
    await start();
    const clients: Socket[] = [];
    for (let index = 0; index < 6; index++) {
      const accepted = new Promise<void>((resolve) => {
        onOwn = resolve;
        for (const worker of started) worker.onPassed = resolve;
      });
      clients.push(connect(address.port, '127.0.0.1').on('error', () => undefined));
      await accepted;
    }
    expect([own.length, ...started.map(({ connections }) => connections)]).toEqual([2, 2, 2]);
    for (const socket of [...clients, ...own]) socket.destroy();
    pool.stopAccepting();
    await pool.stop();
  });

  it('serves all connections itself while no worker is ready', async () => {
    const { pool } = poolOf(2);
    let accept: (socket: Socket) => void = () => undefined;
    const accepted = new Promise<Socket>((resolve) => {
      accept = resolve;
    });
    const { port } = await pool.listen('127.0.0.1', 0, (socket) => accept(socket));
    const client = connect(port, '127.0.0.1');
    await once(client, 'connect');
    (await accepted).destroy();
    client.destroy();
    pool.stopAccepting();
    expect(pool.workers()).toEqual([{ name: 'worker-2', health: { healthy: false, reason: 'starting' } }]);
  });

  it('starts a worker that ended again, after longer and longer delays', async () => {
    const { clock, pool, started, start } = poolOf(2);
    await start();
    expect(pool.workers()[0]?.health).toEqual({ healthy: true });
    for (const delay of [500, 1000, 2000]) {
      const count = started.length;
      started.at(-1)?.end('exit code 1');
      await started.at(-1)?.ended;
      await clock.advance(delay - 1);
      expect(started).toHaveLength(count);
      expect(pool.workers()[0]?.health).toEqual({ healthy: false, reason: 'exit code 1' });
      await clock.advance(1);
      expect(started).toHaveLength(count + 1);
    }
    await pool.stop();
    await clock.advance(60_000);
    expect(started).toHaveLength(4);
  });

  it('kills a worker that does not respond', async () => {
    const { clock, started, start, pool } = poolOf(2, { answer: false });
    await start();
    await clock.advance(20_000);
    expect(started[0]?.killed).toBe(1);
    await pool.stop();
  });

  it('returns the metrics of the workers that respond, and reloads the keys of all', async () => {
    const { pool, start } = poolOf(3);
    await start();
    expect(await pool.otherMetrics()).toEqual(['metrics', 'metrics']);
    expect(await pool.metricsOfWorkers('worker-3')).toEqual(['metrics']);
    await pool.reloadKeys();
    await pool.stop();
  });
});
