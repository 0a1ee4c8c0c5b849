import { readFile } from 'node:fs/promises';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Worker } from 'node:worker_threads';
import { startCluster, type TestCluster } from '@oarlock/testing/start-cluster';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse } from 'yaml';

/** Nearly the maximum size of a request body. */
const bytes = 2_900_000;
const json = 'application/json';
const yaml = 'application/yaml';
const maps = '/api/v1/namespaces/default/configmaps';
const many = (count: number, each: (index: number) => string, between: string) =>
  Array.from({ length: count }, (_, index) => each(index)).join(between);

interface Bomb {
  readonly title: string;
  readonly body: string;
  readonly type: string;
  readonly codes: readonly number[];
  /** Limit on the CPU time that the request may block the event loop, in milliseconds. */
  readonly holds: number;
  readonly path?: string;
  readonly method?: string;
}
// nested input is rejected before it is processed; the cost of wide input is proportional to its size
const bombs: readonly Bomb[] = [
  {
    title: 'JSON arrays in arrays',
    body: `{"data":${'['.repeat(bytes / 2)}${']'.repeat(bytes / 2)}}`,
    type: json,
    codes: [400, 413],
    holds: 2_500,
  },
  {
    title: 'JSON objects in objects',
    body: `{"data":${'{"a":'.repeat(bytes / 6)}1${'}'.repeat(bytes / 6)}}`,
    type: json,
    codes: [400, 413],
    holds: 2_500,
  },
  { title: 'empty JSON arrays', body: `{"data":[${'[],'.repeat(bytes / 3)}[]]}`, type: json, codes: [413], holds: 2_500 },
  {
    title: 'one key again and again',
    body: `{"metadata":{"name":"d"},"data":{${'"a":"b",'.repeat(bytes / 8)}"a":"b"}}`,
    type: json,
    codes: [413],
    holds: 2_500,
  },
  {
    title: 'unknown fields',
    body: `{"metadata":{"name":"d"},${many(90_000, (n) => `"unknown${n}":1`, ',')}}`,
    type: json,
    codes: [201],
    holds: 4_000,
  },
  {
    title: 'invalid labels',
    body: `{"metadata":{"name":"l","labels":{${many(90_000, (n) => `"k${n}":"v!"`, ',')}}}}`,
    type: json,
    codes: [422],
    holds: 4_000,
  },
  {
    title: "keys, each of them somebody's field",
    body: `{"metadata":{"name":"k"},"data":{${many(90_000, (n) => `"k${n}":"v"`, ',')}}}`,
    type: json,
    codes: [201],
    holds: 4_000,
  },
  { title: 'a long name', body: `{"metadata":{"name":"${'a-'.repeat(500_000)}"}}`, type: json, codes: [422], holds: 2_000 },
  { title: 'YAML brackets', body: `a: ${'['.repeat(bytes)}`, type: yaml, codes: [413], holds: 1_000 },
  { title: 'YAML dashes', body: '- '.repeat(bytes / 2), type: yaml, codes: [400], holds: 1_000 },
  {
    title: 'YAML aliases of aliases',
    body: [
      'a: &a [x,x,x,x,x,x,x,x,x]',
      ...'bcdefghi'.split('').map((name, at) => `${name}: &${name} [${Array(9).fill(`*${'abcdefgh'[at]}`).join(',')}]`),
    ].join('\n'),
    type: yaml,
    codes: [400],
    holds: 1_000,
  },
  {
    title: 'YAML merges',
    body: `x: &x {${many(3_000, (n) => `k${n}: v`, ', ')}}\n${many(90, (n) => `m${n}: {<<: *x}`, '\n')}`,
    type: yaml,
    codes: [400],
    holds: 2_000,
  },
  {
    title: 'YAML keys',
    body: `metadata: {name: y}\ndata:\n${many(150_000, (n) => `  k${n}: v`, '\n')}`,
    type: yaml,
    codes: [413],
    holds: 4_000,
  },
  {
    title: 'an applied nest',
    body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
    type: 'application/apply-patch+yaml',
    codes: [400, 413],
    holds: 2_000,
    path: `${maps}/m?fieldManager=x&dryRun=All`,
    method: 'PATCH',
  },
  {
    title: 'a long selector',
    body: '',
    type: json,
    codes: [200, 400],
    holds: 1_000,
    path: `/api/v1/pods?labelSelector=${'a%3Db%2C'.repeat(1_500)}a%3Db`,
    method: 'GET',
  },
];

/** Runs in a worker thread, so that the sender's own work does not count as the server's. */
const sender = `
const { parentPort, workerData } = require('node:worker_threads');
const { request } = require('node:https');
parentPort.on('message', ({ id, method, path, type, body }) => {
  const call = request({ host: '127.0.0.1', method, path, agent: false, ...workerData, headers: { 'content-type': type, 'content-length': Buffer.byteLength(body) } }, (response) => {
    response.resume();
    response.once('end', () => parentPort.postMessage({ id, code: response.statusCode }));
  });
  call.once('error', () => parentPort.postMessage({ id, code: 0 }));
  call.end(body);
});`;
let cluster: TestCluster;
let thread: Worker;
let requests = 0;
/** Returns the response code; responses to requests of an aborted test are ignored. */
const send = (method: string, path: string, type: string, body: string) =>
  new Promise<number>((resolve) => {
    const id = ++requests;
    const take = (answer: { readonly id: number; readonly code: number }) => {
      if (answer.id !== id) return;
      thread.off('message', take);
      resolve(answer.code);
    };
    thread.on('message', take);
    thread.postMessage({ id, method, path, type, body }, []);
  });

beforeAll(async () => {
  cluster = await startCluster({ roles: ['apiserver'] });
  const config = parse(await readFile(cluster.kubeconfig, 'utf8')) as {
    clusters: [{ cluster: Record<string, string> }];
    users: [{ user: Record<string, string> }];
  };
  const text = (data: string | undefined) => Buffer.from(data ?? '', 'base64').toString('utf8');
  const ca = text(config.clusters[0].cluster['certificate-authority-data']);
  const cert = text(config.users[0].user['client-certificate-data']);
  const key = text(config.users[0].user['client-key-data']);
  thread = new Worker(sender, { eval: true, workerData: { port: Number(new URL(cluster.server).port), ca, cert, key } });
  // warm-up: modules that load on the first request do not count
  expect(await send('POST', `${maps}?dryRun=All`, json, '{"metadata":{"name":"first"}}')).toBe(201);
  expect(await send('POST', `${maps}?dryRun=All`, yaml, 'metadata: {name: second}')).toBe(201);
});
afterAll(async () => {
  await thread.terminate();
  await cluster.stop();
});

it.each(bombs)(
  '$title: rejected or accepted within the limit',
  async ({ body, type, codes, holds, path = `${maps}?dryRun=All`, method = 'POST' }) => {
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    const before = process.cpuUsage();
    const code = await send(method, path, type, body);
    const { user, system } = process.cpuUsage(before);
    delay.disable();
    expect(codes).toContain(code);
    // on a busy machine the event loop is blocked longer than the server's own CPU time
    expect(Math.min(delay.max / 1e6, (user + system) / 1e3)).toBeLessThan(holds);
    expect(await send('GET', '/livez', json, '')).toBe(200);
  },
);

it('60,000 invalid labels cost no more than as many valid ones', async () => {
  const labels = (value: string) => `{"metadata":{"name":"l","labels":{${many(60_000, (n) => `"k${n}":"${value}"`, ',')}}}}`;
  const [wrong, right] = [labels('v!'), labels('v')];
  const spent = async (body: string, code: number) => {
    const before = process.cpuUsage();
    expect(await send('POST', `${maps}?dryRun=All`, json, body)).toBe(code);
    const { user, system } = process.cpuUsage(before);
    return user + system;
  };
  await spent(wrong, 422);
  await spent(right, 201);
  // alternating, the minimum of each: CPU time varies as well
  const durations: (readonly [number, number])[] = [];
  for (let round = 0; round < 3; round++) durations.push([await spent(wrong, 422), await spent(right, 201)]);
  expect(Math.min(...durations.map(([each]) => each)) / Math.min(...durations.map(([, each]) => each))).toBeLessThan(1);
});
