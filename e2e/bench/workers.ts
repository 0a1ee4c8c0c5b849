// Processor time per request and latency of an API server with two processes (`workers: 2`), beside one process. Both clusters run at the same time and
// take turns, so that other load on the machine changes both. Each client has an HTTP/2 connection of its own, as every client of client-go.
import { readFile } from 'node:fs/promises';
import { composition } from '../harness/composition.ts';
import type { Cluster } from '../harness/cluster.ts';
import { BenchEnvironment, cpuSeconds } from './support/bench-environment.ts';
import { LoadGenerator } from './support/load-generator.ts';
import { median, print, quantile } from './support/statistics.ts';

const clients = 4;
/** Concurrent requests of each client. */
const width = 8;
const repetitions = Number(process.env['OARLOCK_ROUNDS'] ?? 5);
const counts = { create: 1500, get: 6000, update: 1500, list: 12 };
type Operation = keyof typeof counts;

const path = '/api/v1/namespaces/default/configmaps';
const data = { text: 'x'.repeat(1000) };
const body = (name: string) => JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data });

interface Sample {
  /** Processor time of all processes of the server per request, in microseconds. */
  readonly cost: number;
  readonly perSecond: number;
  readonly latency: number;
}

/** A server under load. */
class LoadedServer {
  readonly samples: Record<Operation | 'alone', Sample[]> = { create: [], get: [], update: [], list: [], alone: [] };
  readonly #cluster: Cluster;
  readonly #clients: readonly LoadGenerator[];
  #created = 0;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    this.#clients = Array.from({ length: clients }, () => new LoadGenerator(cluster.api));
  }

  async prepare(): Promise<void> {
    for (let index = 0; index < 500; index++) await this.#request('POST', `base-${index}`, index);
  }

  async measure(operation: Operation, round: number): Promise<void> {
    const work: Record<Operation, (index: number) => Promise<number>> = {
      create: () => this.#request('POST', `load-${this.#created}`, this.#created++),
      get: (index) => this.#request('GET', `base-${index % 500}`, index),
      update: (index) => this.#request('PUT', `base-${index % 500}`, index + 1 + round),
      list: (index) => this.#client(index).request('GET', `${path}?limit=500`),
    };
    this.samples[operation].push(await this.#sample(counts[operation], clients * width, work[operation]));
  }

  /** Measures the latency of writes without other load, each over the next client. */
  async measureAlone(): Promise<void> {
    this.samples.alone.push(await this.#sample(200, 1, (index) => this.#request('PUT', `base-${index}`, index)));
  }

  close(): void {
    for (const client of this.#clients) client.close();
  }

  async #sample(count: number, parallel: number, work: (index: number) => Promise<number>): Promise<Sample> {
    const began = await this.#seconds();
    const { perSecond, times } = await this.#client(0).rate(count, parallel, work);
    return { cost: ((await this.#seconds()) - began) * (1e6 / count), perSecond, latency: quantile(times, 0.5) };
  }

  #client(index: number): LoadGenerator {
    return this.#clients[index % clients] as LoadGenerator;
  }

  #request(method: 'GET' | 'PUT' | 'POST', name: string, index: number): Promise<number> {
    const target = method === 'POST' ? path : `${path}/${name}`;
    return this.#client(index).request(method, target, method === 'GET' ? undefined : body(name));
  }

  async #seconds(): Promise<number> {
    const { pid } = this.#cluster;
    const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
    const pids = [pid, ...children.split(' ').filter(Boolean).map(Number)];
    const seconds = await Promise.all(pids.map(cpuSeconds));
    return seconds.reduce((sum, each) => sum + each, 0);
  }
}

await BenchEnvironment.with(async (stage) => {
  const start = async (workers: number) => {
    const spec = {
      ...composition({ storage: 'embedded', runtime: 'simulated', network: 'host' }),
      roles: ['apiserver'],
      settings: { apiserver: { workers } },
    };
    const server = new LoadedServer(await stage.cluster({ spec }));
    await server.prepare();
    return server;
  };
  const [one, two] = [await start(1), await start(2)];
  for (let round = -1; round < repetitions; round++) {
    if (round === 0) for (const { samples } of [one, two]) for (const list of Object.values(samples)) list.length = 0;
    const order = round % 2 === 0 ? [one, two] : [two, one];
    for (const operation of Object.keys(counts) as Operation[]) for (const server of order) await server.measure(operation, round);
    for (const server of order) await server.measureAlone();
  }
  const figure = (what: string, operation: Operation | 'alone', key: keyof Sample, unit: string) => {
    const [value = 0, reference = 0] = [two, one].map(({ samples }) => median(samples[operation].map((sample) => sample[key])));
    return { what, value, unit, reference: { what: 'one process', value: reference } };
  };
  print(
    (Object.keys(counts) as Operation[]).flatMap((operation) => [
      figure(`${operation}, processor time with two processes`, operation, 'cost', 'us'),
      figure(`${operation}, rate with two processes`, operation, 'perSecond', '/s'),
    ]),
  );
  print([figure('update without other load, median', 'alone', 'latency', 'ms')]);
  for (const server of [one, two]) server.close();
});
