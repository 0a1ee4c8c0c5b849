import { once } from 'node:events';
import { connect } from 'node:net';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { HealthEndpoints, ping } from '../../src/handler-chain/health-endpoints.ts';
import { RequestMetrics, type RequestObservation } from '../../src/http/request-metrics.ts';
import type { Route } from '../../src/http/routes.ts';
import { healthCheckObserver } from '../../src/handler-chain/health-check-metrics.ts';
import type { Pipeline } from '../../src/pipeline/pipeline.ts';
import { PrecomputedHistogram } from '@oarlock/kernel/precomputed-metrics';
import { registerWatchCacheMetrics } from '../../src/watch-cache/watch-cache-metrics.ts';
import { parseTarget } from '../../src/http/path.ts';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { configMap, TestServer as Core } from '../support/pipeline-fixture.ts';
import { startServer, type TestServer } from '../support/start-server.ts';

const sample = (text: string, series: string): number | undefined => {
  const line = text.split('\n').find((candidate) => candidate.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
};

describe('series of requests', () => {
  const resource = { group: '', version: 'v1', resource: 'configmaps', kind: 'ConfigMap', namespaced: true };
  const routeOf = (more: object = {}) =>
    ({ verb: 'get', resource: { ...resource }, subresource: undefined, namespace: 'a', name: 'b', ...more }) as Route;
  const count = async (observations: readonly Partial<RequestObservation>[]) => {
    const registry = new Registry();
    const metrics = new RequestMetrics(registry, { mutating: () => 0, readOnly: () => 0 }, 'v1.36.0');
    for (const observation of observations)
      metrics.observeRequest({
        verb: 'GET',
        route: routeOf(),
        isDryRun: false,
        code: 200,
        seconds: 0.1,
        waitSeconds: 0,
        bytes: 10,
        ...observation,
      });
    return (await registry.metrics()).split('\n').filter((line) => line.startsWith('apiserver_request_total{'));
  };

  it('have a histogram of durations without the wait for flow control, except for watches and streams', async () => {
    const registry = new Registry();
    const metrics = new RequestMetrics(registry, { mutating: () => 0, readOnly: () => 0 }, 'v1.36.0');
    const route = routeOf();
    for (const verb of ['GET', 'WATCH', 'CONNECT'])
      metrics.observeRequest({ verb, route, isDryRun: false, code: 200, seconds: 3, waitSeconds: 2, bytes: 10 });
    const text = await registry.metrics();
    const labels = 'verb="GET",group="",version="v1",resource="configmaps",subresource="",scope="resource",component="apiserver"';
    expect(sample(text, `apiserver_request_sli_duration_seconds_sum{${labels}}`)).toBe(1);
    expect(text.match(/^apiserver_request_sli_duration_seconds_count/gm)).toHaveLength(1);
    expect(text.match(/^apiserver_request_duration_seconds_sum\{verb="GET".* 3$/gm)).toHaveLength(1);
  });

  it('are the same after the routes have been built anew', async () => {
    const route = routeOf();
    const lines = await count([{ route }, { route }, { route: routeOf() }]);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/ 3$/);
  });

  it('differ by verb, scope, subresource, dry run and code, for one resource', async () => {
    const route = routeOf();
    const others: readonly Partial<RequestObservation>[] = [
      { route },
      { route, verb: 'PUT' },
      { route, code: 404 },
      { route, isDryRun: true },
      { route: { ...route, name: '' } },
      { route: { ...route, subresource: { name: 'status', verbs: ['get'] } } as unknown as Route },
    ];
    const lines = await count([...others, ...others]);
    expect(lines).toHaveLength(others.length);
    for (const line of lines) expect(line).toMatch(/ 2$/);
  });
});

describe('request metrics', () => {
  let core: Core;
  let server: TestServer<Pipeline>;
  beforeEach(async () => {
    core = await Core.start();
    server = await startServer({}, core.pipeline);
  });
  afterEach(async () => {
    await server.stop();
    await core.stop();
  });
  const metrics = async () => (await server.http1('GET', '/metrics')).text;

  it('count failed TLS handshakes', async () => {
    const before = sample(await metrics(), 'apiserver_tls_handshake_errors_total');
    const socket = connect(server.port, '127.0.0.1').end('GET / HTTP/1.1\r\n\r\n').resume();
    await once(socket, 'close');
    expect([before, sample(await metrics(), 'apiserver_tls_handshake_errors_total')]).toEqual([0, 1]);
  });

  it('are only the service level indicators at /metrics/slis', async () => {
    const observe = healthCheckObserver(server.registry);
    observe({ endpoint: 'livez', name: 'ping', healthy: true });
    const { code, text } = await server.http1('GET', '/metrics/slis');
    expect([code, text.match(/^# TYPE .*$/gm)]).toEqual([
      200,
      ['# TYPE kubernetes_healthcheck gauge', '# TYPE kubernetes_healthchecks_total counter'],
    ]);
    expect(sample(text, 'kubernetes_healthcheck{name="ping",type="livez"}')).toBe(1);
    expect((await server.http1('GET', '/')).json<{ paths: string[] }>().paths).toContain('/metrics/slis');
  });

  it('have the response sizes of reads and not of writes', async () => {
    await core.create('configmaps', configMap('a', { text: 'x'.repeat(20_000) }));
    const path = '/api/v1/namespaces/default/configmaps';
    const one = await server.http1('GET', `${path}/a`);
    const all = await server.http1('GET', path);
    await server.http1('DELETE', `${path}/a`);
    const text = await metrics();
    const labels = (verb: string, scope: string) =>
      `verb="${verb}",group="",version="v1",resource="configmaps",subresource="",scope="${scope}",component="apiserver"`;
    expect(sample(text, `apiserver_response_sizes_sum{${labels('GET', 'resource')}}`)).toBe(Buffer.byteLength(one.text));
    expect(sample(text, `apiserver_response_sizes_sum{${labels('LIST', 'namespace')}}`)).toBe(Buffer.byteLength(all.text));
    const bucket = (le: string) => sample(text, `apiserver_response_sizes_bucket{le="${le}",${labels('GET', 'resource')}}`);
    expect([bucket('10000'), bucket('100000'), bucket('+Inf')]).toEqual([0, 1, 1]);
    expect(text).not.toMatch(/^apiserver_response_sizes_count\{verb="DELETE"/m);
  });

  it('count the bytes of streamed lists over HTTP/1.1 and HTTP/2', async () => {
    for (let i = 0; i < 40; i++) await core.create('configmaps', configMap(`m${i}`, { text: 'x'.repeat(10_000) }));
    const path = '/api/v1/namespaces/default/configmaps';
    const [first, second] = [await server.http1('GET', path), await server.http2('GET', path)];
    const labels = 'verb="LIST",group="",version="v1",resource="configmaps",subresource="",scope="namespace",component="apiserver"';
    expect(sample(await metrics(), `apiserver_response_sizes_sum{${labels}}`)).toBe(
      Buffer.byteLength(first.text) + Buffer.byteLength(second.text),
    );
  });

  it('have the deprecated versions that have been requested', async () => {
    expect(await metrics()).not.toMatch(/^apiserver_requested_deprecated_apis\{/m);
    await server.http1('GET', '/api/v1/endpoints');
    expect(await metrics()).toMatch(
      /^apiserver_requested_deprecated_apis\{group="",version="v1",resource="endpoints",subresource="",removed_release=""\} 1$/m,
    );
  });

  it('include those of the watch cache', async () => {
    await core.create('configmaps', configMap('a'));
    await core.create('configmaps', configMap('b'));
    await core.remove('configmaps', 'a');
    await core.list('configmaps');
    const registry = new Registry();
    registerWatchCacheMetrics(registry, core.pipeline);
    const text = await registry.metrics();
    const of = (name: string) => sample(text, `${name}{group="",resource="configmaps"}`);
    expect(of('apiserver_watch_cache_events_received_total')).toBe(3);
    expect(of('apiserver_watch_cache_events_dispatched_total')).toBe(3);
    expect(of('apiserver_watch_cache_initializations_total')).toBe(1);
    expect(of('apiserver_watch_cache_resource_version')).toBe(core.pipeline.revision);
    expect(of('apiserver_watch_cache_capacity')).toBeGreaterThanOrEqual(3);
    expect(of('apiserver_watch_cache_capacity_increase_total')).toBe(1);
    expect(of('apiserver_terminated_watchers_total')).toBe(0);
    expect(text).toMatch(/^apiserver_watch_cache_resource_version\{group="apps",resource="deployments"\}/m);
  });
});

describe('a metric', () => {
  it('has a bound of label sets and counts every request', async () => {
    const registry = new Registry();
    const requests = new RequestMetrics(registry, { mutating: () => 0, readOnly: () => 0 }, 'v1.36.0');
    for (let i = 0; i < 10_500; i++)
      requests.observeRequest({
        verb: `VERB${i}`,
        route: undefined,
        isDryRun: false,
        code: 405,
        waitSeconds: 0,
        seconds: 0.001,
        bytes: 0,
      });
    const text = await registry.metrics();
    const counts = [...text.matchAll(/^apiserver_request_total\{.*\} (\d+)$/gm)].map(([, count]) => Number(count));
    expect(counts.length).toBeLessThanOrEqual(10_001);
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(10_500);
  });

  it('counts a value equal to a bucket bound in that bucket, as Prometheus does', async () => {
    const registry = new Registry();
    const series = new PrecomputedHistogram({ name: 'h', help: 'h', labelNames: ['a'], buckets: [1, 2], registry }).series({ a: 'b' });
    for (const value of [0, 1, 1.5, 2, 7]) series.observe(value);
    expect((await registry.metrics()).split('\n').filter((line) => line.startsWith('h'))).toEqual([
      'h_bucket{le="1",a="b"} 2',
      'h_bucket{le="2",a="b"} 4',
      'h_bucket{le="+Inf",a="b"} 5',
      'h_sum{a="b"} 11.5',
      'h_count{a="b"} 5',
    ]);
  });

  it('has the last result of each health check and the number of results', async () => {
    const registry = new Registry();
    let well = true;
    const check = {
      name: 'etcd',
      live: true,
      ready: true,
      check: () => (well ? ({ healthy: true } as const) : ({ healthy: false, reason: 'gone' } as const)),
    };
    const health = new HealthEndpoints({
      checks: () => [ping, check],
      clock: new FakeClock(),
      onFailure: () => undefined,
      observe: healthCheckObserver(registry),
    });
    await health.answer('/livez', parseTarget('/livez').query);
    well = false;
    await health.answer('/livez/etcd', parseTarget('/livez/etcd').query);
    const text = await registry.metrics();
    expect(sample(text, 'kubernetes_healthcheck{name="ping",type="livez"}')).toBe(1);
    expect(sample(text, 'kubernetes_healthcheck{name="etcd",type="livez"}')).toBe(0);
    expect(sample(text, 'kubernetes_healthchecks_total{name="etcd",type="livez",status="success"}')).toBe(1);
    expect(sample(text, 'kubernetes_healthchecks_total{name="etcd",type="livez",status="error"}')).toBe(1);
  });
});
