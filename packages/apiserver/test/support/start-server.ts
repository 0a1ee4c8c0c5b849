import type { IncomingHttpHeaders } from 'node:http';
import { request as request1, type RequestOptions } from 'node:https';
import { connect, type ClientHttp2Session } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import type { AuditSink } from '@oarlock/spi/audit';
import { anonymous, authenticated, type Authenticator } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import type { KeyPair } from '@oarlock/spi/cluster';
import type { LocalNodes } from '@oarlock/spi/local-nodes';
import type { PathHandler } from '@oarlock/spi/paths';
import { Registry } from 'prom-client';
import { ProxyClientCertificate } from '../../src/proxy/proxy-client-certificate.ts';
import { ProxyEndpoints } from '../../src/proxy/proxy-endpoints.ts';
import { ReverseProxy } from '../../src/proxy/reverse-proxy.ts';
import type { AuditPolicy } from '../../src/audit/audit-policy.ts';
import { Auditor } from '../../src/audit/auditor.ts';
import { DiscoveryEndpoints } from '../../src/endpoints/discovery/discovery-endpoints.ts';
import { HealthEndpoints, ping, type HealthCheck } from '../../src/handler-chain/health-endpoints.ts';
import { HttpHandler } from '../../src/handler-chain/http-handler.ts';
import type { HttpPipeline } from '../../src/handler-chain/http-pipeline.ts';
import { PriorityAndFairness } from '../../src/flowcontrol/priority-and-fairness.ts';
import { InFlightCounter } from '../../src/handler-chain/in-flight-counter.ts';
import { PathEndpoints } from '../../src/handler-chain/path-endpoints.ts';
import { ZPages } from '../../src/handler-chain/zpages.ts';
import { connectionLimits, defaultConnectionConfig, type ConnectionLimits } from '../../src/http/connection-limits.ts';
import type { RequestBodyMemory } from '../../src/http/request-body-memory.ts';
import { HttpServer } from '../../src/http/server.ts';
import { RequestMetrics } from '../../src/http/request-metrics.ts';
import { OpenApiEndpoints } from '../../src/endpoints/openapi/openapi-endpoints.ts';
import { kubeletClientRequest } from '../../src/proxy/kubelet-client-request.ts';
import { ProxyAddresses } from '../../src/proxy/proxy-addresses.ts';
import { KubeletProxy } from '../../src/proxy/kubelet-proxy.ts';
import { frontProxyKeys } from '../../src/aggregation/request-header.ts';
import { FakePipeline } from './fake-pipeline.ts';
import { testKeys, type TestKeys } from './keys.ts';

export interface ServerSettings {
  readonly authn?: readonly Authenticator[];
  readonly authz?: readonly Authorizer[];
  readonly clock?: Clock;
  readonly requestTimeoutMs?: number;
  readonly handlers?: readonly PathHandler[];
  readonly checks?: readonly HealthCheck[];
  readonly keys?: TestKeys;
  readonly audit?: readonly AuditSink[];
  readonly auditPolicy?: AuditPolicy;
  readonly fairness?: PriorityAndFairness;
  readonly inFlight?: InFlightCounter;
  readonly local?: LocalNodes;
  readonly maxStreamsPerConnection?: number;
  readonly compresses?: boolean;
  readonly limits?: Partial<ConnectionLimits>;
  readonly bodies?: RequestBodyMemory;
  readonly log?: Logger;
}

/** Authenticates by the common name of the client certificate; without one as anonymous. */
export const byCertificate: Authenticator = {
  authenticate: ({ certificate, bearerToken }) => {
    if (bearerToken !== undefined)
      return bearerToken === 'good'
        ? authenticated({ name: 'token-user', groups: ['testers'] })
        : { outcome: 'rejected', reason: 'unknown token' };
    const name = /CN=(.*)/.exec(certificate?.subject ?? '')?.[1];
    return authenticated(name === undefined ? anonymous : { name, groups: ['system:masters'] });
  },
};
export const allowAll: Authorizer = { authorize: () => ({ decision: 'allow', reason: 'test' }) };

export interface Answer {
  readonly code: number;
  readonly headers: IncomingHttpHeaders;
  /** The body as received. */
  readonly bytes: Buffer;
  /** The body after decompression. */
  readonly decoded: Buffer;
  readonly text: string;
  json<T = Record<string, never>>(): T;
}

export async function startServer<P extends HttpPipeline = FakePipeline>(
  settings: ServerSettings = {},
  pipeline: P = new FakePipeline() as HttpPipeline as P,
) {
  const keys = settings.keys ?? (await testKeys());
  const clock = settings.clock ?? systemClock;
  const registry = new Registry();
  const { log = silentLogger } = settings;
  const { inFlight = new InFlightCounter(), fairness = new PriorityAndFairness(600, 15_000, clock) } = settings;
  const { requestTimeoutMs = 60_000 } = settings;
  const abort = new AbortController();
  const checks = settings.checks ?? [ping];
  const served = () => pipeline.servedKinds();
  const paths = new PathEndpoints({
    discovery: new DiscoveryEndpoints({ served, serverAddress: () => '10.0.0.1:6443' }),
    openApi: new OpenApiEndpoints({ served, version: 'v1.36.0' }),
    health: new HealthEndpoints({ checks: () => checks, clock, onFailure: () => undefined }),
    handlers: settings.handlers ?? [],
    version: 'v1.36.0+oarlock.test',
    registries: () => [registry],
    zPages: new ZPages({ component: 'kube-apiserver', startedAt: clock.now(), version: 'v1.36.0+oarlock.test', flags: {} }, clock),
  });
  let bound: AddressInfo | undefined;
  const addresses = new ProxyAddresses({ listeners: () => (bound === undefined ? [] : [{ host: bound.address, port: bound.port }]) });
  const clientCertificate = new ProxyClientCertificate({
    issue: () => keys.issue(kubeletClientRequest),
    caBundle: keys.caBundle,
    clock,
  });
  const handler = new HttpHandler({
    pipeline,
    paths,
    fairness,
    inFlight,
    clock,
    log,
    ...(settings.audit !== undefined && { auditor: auditorOf(settings.audit, settings.auditPolicy, clock) }),
    authn: settings.authn ?? [byCertificate],
    authz: settings.authz ?? [allowAll],
    kubeletProxy: new KubeletProxy(clientCertificate, abort.signal, { addresses, local: settings.local }),
    proxyEndpoints: new ProxyEndpoints(new ReverseProxy(abort.signal, addresses), clientCertificate),
    metrics: new RequestMetrics(registry, { mutating: () => inFlight.mutating, readOnly: () => inFlight.readOnly }, 'v1.36.0'),
    requestTimeoutMs,
    ...(settings.compresses !== undefined && { compresses: settings.compresses }),
  });
  const server = new HttpServer({
    pair: await keys.issue({ commonName: 'kube-apiserver', dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'], usages: ['server'] }),
    clientAuthorities: { cluster: keys.caBundle, frontProxy: frontProxyKeys(keys).caBundle },
    clock,
    log,
    maxStreamsPerConnection: settings.maxStreamsPerConnection ?? 250,
    limits: { ...connectionLimits(defaultConnectionConfig, requestTimeoutMs), ...settings.limits },
    registry,
    ...(settings.bodies && { bodies: settings.bodies }),
    handle: (exchange, upgrade) => handler.handle(exchange, upgrade),
  });
  bound = await server.listen('127.0.0.1', 0);
  const { port } = bound;
  const sessions: ClientHttp2Session[] = [];

  const http1 = (
    method: string,
    path: string,
    {
      headers = {},
      body,
      tls = {},
    }: {
      readonly headers?: Record<string, string | readonly string[]>;
      readonly body?: string | Buffer;
      readonly tls?: RequestOptions;
    } = {},
  ): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const request = request1(
        {
          host: '127.0.0.1',
          port,
          method,
          path,
          headers: {
            ...(headers as Record<string, string>),
            ...(body !== undefined && { 'content-length': String(Buffer.byteLength(body)) }),
          },
          ca: keys.caBundle,
          agent: false,
          ...tls,
        },
        (response) => {
          const chunks: Buffer[] = [];
          response.on('data', (chunk: Buffer) => {
            chunks.push(chunk);
          });
          response.on('end', () => {
            resolve(answerOf(response.statusCode ?? 0, response.headers, chunks));
          });
          response.on('error', reject);
        },
      );
      request.on('error', reject);
      request.end(body);
    });

  const session = (pair?: KeyPair) => {
    const created = connect(`https://127.0.0.1:${port}`, { ca: keys.caBundle, ...(pair && { cert: pair.certificate, key: pair.key }) });
    created.on('error', () => undefined);
    sessions.push(created);
    return created;
  };
  let shared: ClientHttp2Session | undefined;
  const http2 = (
    method: string,
    path: string,
    {
      headers = {},
      body,
      over,
    }: { readonly headers?: Record<string, string>; readonly body?: string | Buffer; readonly over?: ClientHttp2Session } = {},
  ): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const stream = (over ?? (shared ??= session())).request(
        { ':method': method, ':path': path, ...headers },
        { endStream: body === undefined },
      );
      const chunks: Buffer[] = [];
      let head: IncomingHttpHeaders = {};
      let code = 0;
      stream.on('response', (received) => {
        head = received;
        code = Number(received[':status']);
      });
      stream.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
      });
      stream.on('close', () => {
        if (stream.rstCode === 0) resolve(answerOf(code, head, chunks));
        else reject(new Error(`the stream was reset with ${stream.rstCode}`));
      });
      stream.on('error', reject);
      if (body !== undefined) stream.end(body);
    });

  const stop = async () => {
    const drained = handler.drain();
    server.stopAccepting();
    await drained;
    abort.abort();
    await server.close();
    for (const created of sessions) created.destroy();
  };
  return { keys, pipeline, handler, server, port, registry, http1, http2, session, stop };
}
export type TestServer<P extends HttpPipeline = FakePipeline> = Awaited<ReturnType<typeof startServer<P>>>;

function answerOf(code: number, headers: IncomingHttpHeaders, chunks: readonly Buffer[]): Answer {
  const raw = Buffer.concat(chunks);
  const bytes = headers['content-encoding'] === 'gzip' ? gunzipSync(raw) : raw;
  const text = bytes.toString('utf8');
  return { code, headers, bytes: raw, decoded: bytes, text, json: <T>() => JSON.parse(text) as T };
}

function auditorOf(sinks: readonly AuditSink[], policy: AuditPolicy | undefined, clock: Clock): Auditor {
  const auditor = new Auditor(sinks, { clock, log: silentLogger });
  if (policy !== undefined) auditor.setPolicy(policy);
  return auditor;
}
