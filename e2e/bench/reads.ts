// Processor time of the server for a GET of a ConfigMap, over HTTP/1.1 and HTTP/2. Reference of the same run: a TLS server of Node.js
// that answers with the same bytes, over as many connections of the same kind. Blocks of requests to both alternate. The token is that of a service account
// with a Role, the client certificate that of an administrator.
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openRequest, readAnswer } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { composition } from '../harness/composition.ts';
import { mustRun } from '../harness/programs.ts';
import { BareServer, type BareAnswer } from './support/bare-server.ts';
import { cpuSeconds, BenchEnvironment } from './support/bench-environment.ts';
import { Http1Load } from './support/http1-load.ts';
import { LoadGenerator } from './support/load-generator.ts';
import { median, print } from './support/statistics.ts';

const objects = 1000;
const connections = 16;
const blocks = Number(process.env['OARLOCK_BENCH_BLOCKS'] ?? 9);
const [warmUp, perBlock] = [10_000, 20_000];
const path = '/api/v1/namespaces/default/configmaps';
const pathOf = (index: number) => `${path}/load-${index % objects}`;

/** Sends so many GETs to a server. */
interface Variant {
  readonly what: string;
  readonly pid: number;
  get(count: number): Promise<void>;
  close(): void;
}

/** Creates the objects, and returns a token of a service account that may read them. */
async function prepare(cluster: Cluster): Promise<string> {
  const post = (of: string, body: unknown) => cluster.api.json<{ status?: { token?: string } }>('POST', of, { body });
  const metadata = { name: 'reader' };
  await post('/api/v1/namespaces/default/serviceaccounts', { apiVersion: 'v1', kind: 'ServiceAccount', metadata });
  const apiGroup = 'rbac.authorization.k8s.io';
  const apiVersion = `${apiGroup}/v1`;
  const of = (resource: string) => `/apis/${apiVersion}/namespaces/default/${resource}`;
  const rules = [{ apiGroups: [''], resources: ['configmaps'], verbs: ['get'] }];
  const subjects = [{ kind: 'ServiceAccount', name: 'reader', namespace: 'default' }];
  await post(of('roles'), { apiVersion, kind: 'Role', metadata, rules });
  await post(of('rolebindings'), {
    apiVersion,
    kind: 'RoleBinding',
    metadata,
    roleRef: { apiGroup, kind: 'Role', name: 'reader' },
    subjects,
  });
  const load = new LoadGenerator(cluster.api);
  const body = (index: number) =>
    JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: `load-${index}` }, data: { text: 'x'.repeat(500) } });
  await load.rate(objects, 16, (index) => load.request('POST', path, body(index)));
  load.close();
  const { status } = await post('/api/v1/namespaces/default/serviceaccounts/reader/token', {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: { expirationSeconds: 3600 },
  });
  return status?.token ?? '';
}

/** Returns a key and a certificate of the kind that the API server has: ECDSA over P-256. */
async function keyPair(directory: string): Promise<{ readonly key: string; readonly certificate: string }> {
  await mkdir(directory, { recursive: true });
  const [key, certificate] = [join(directory, 'bare.key'), join(directory, 'bare.crt')];
  const algorithm = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key];
  const subject = ['-subj', '/CN=bare', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  await mustRun('openssl', ['req', '-x509', ...algorithm, '-out', certificate, '-days', '2', ...subject]);
  return { key: await readFile(key, 'utf8'), certificate: await readFile(certificate, 'utf8') };
}

/** Returns what a bare server answers: the response of the cluster to the first request. */
async function answerOf(cluster: Cluster): Promise<Pick<BareAnswer, 'headers' | 'body'>> {
  const response = await openRequest(new URL(pathOf(0), cluster.api.server), {}, { method: 'GET', ...cluster.api.tls });
  const { headers, body } = await readAnswer(response);
  const ofConnection = new Set(['connection', 'keep-alive', 'date']);
  return {
    headers: Object.fromEntries(
      Object.entries(headers).flatMap(([name, value]) => (typeof value === 'string' && !ofConnection.has(name) ? [[name, value]] : [])),
    ),
    body,
  };
}

/** A server and how to reach it. */
interface Server {
  readonly pid: number;
  readonly port: number;
  readonly tls: Cluster['api']['tls'];
}

async function http1(what: string, { pid, port, tls: { ca, cert, key } }: Server, token?: string): Promise<Variant> {
  const load = await Http1Load.open({ host: '127.0.0.1', port, ca, ...(token === undefined && { cert, key }) }, connections);
  const authorization = token === undefined ? '' : `authorization: Bearer ${token}\r\n`;
  const head = (index: number) => `GET ${pathOf(index)} HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\n${authorization}\r\n`;
  return { what, pid, get: (count) => load.get(count, head), close: () => load.close() };
}

function http2(what: string, { pid, port, tls }: Server, accept?: string): Variant {
  const load = new LoadGenerator({ server: `https://127.0.0.1:${port}`, tls });
  const get = async (count: number) => {
    await load.rate(count, connections, (index) => load.request('GET', pathOf(index), undefined, accept));
  };
  return { what, pid, get, close: () => load.close() };
}

/** Returns the processor time of a server per request, in microseconds. */
async function cost(variant: Variant, count: number): Promise<number> {
  const began = await cpuSeconds(variant.pid);
  await variant.get(count);
  return ((await cpuSeconds(variant.pid)) - began) * (1e6 / count);
}

async function compare(reference: Variant, variants: readonly Variant[]): Promise<void> {
  const all = [reference, ...variants];
  const costs = new Map<Variant, number[]>(all.map((variant) => [variant, []]));
  for (const variant of all) await variant.get(warmUp);
  for (let block = 0; block < blocks; block++) {
    for (const variant of all) costs.get(variant)?.push(await cost(variant, perBlock));
  }
  const of = (variant: Variant) => median(costs.get(variant) ?? []);
  print(
    variants.map((variant) => ({
      what: `${variant.what}, processor time`,
      value: of(variant),
      unit: 'us',
      reference: { what: reference.what, value: of(reference) },
    })),
  );
  for (const variant of all) variant.close();
}

await BenchEnvironment.with(async (stage) => {
  const spec = { ...composition({ storage: 'embedded', runtime: 'simulated', network: 'host' }), roles: ['apiserver'] };
  const cluster = await stage.cluster({ spec });
  const token = await prepare(cluster);
  const answer = { ...(await answerOf(cluster)), ...(await keyPair(stage.path('bare'))) };
  const tls = { ...cluster.api.tls, ca: answer.certificate };
  const server = { pid: cluster.pid, port: cluster.port, tls: cluster.api.tls };
  const bare = [
    await BareServer.start({ ...answer, protocol: 'HTTP/1.1' }),
    await BareServer.start({ ...answer, protocol: 'HTTP/2' }),
  ] as const;
  const [one, two] = bare.map(({ pid, port }) => ({ pid, port, tls })) as [Server, Server];
  try {
    await compare(await http1('bare server, HTTP/1.1', one, token), [
      await http1('GET over HTTP/1.1, token', server, token),
      await http1('GET over HTTP/1.1, client certificate', server),
    ]);
    await compare(http2('bare server, HTTP/2', two), [
      http2('GET over HTTP/2, client certificate', server),
      http2('GET over HTTP/2, protobuf', server, 'application/vnd.kubernetes.protobuf'),
    ]);
  } finally {
    await Promise.all(bare.map((each) => each.stop()));
  }
});
