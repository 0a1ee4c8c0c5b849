import { X509Certificate } from 'node:crypto';
import { deny, type AdmissionPlugin } from '@oarlock/spi/admission';
import { configMaps } from '@oarlock/api/resources';
import { noTracer } from '@oarlock/kernel/tracing';
import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { AuthMetrics } from '../../src/authorization/access-metrics.ts';
import { testKeys } from '../support/keys.ts';
import { AdmissionChain } from '../../src/admission/admission-chain.ts';
import { AdmissionMetrics, pluginMetricName } from '../../src/admission/admission-metrics.ts';
import { RequestContext } from '../../src/endpoints/request/request-context.ts';
import { PrecomputedSummary } from '../../src/metrics/summary.ts';

const call = () =>
  new RequestContext(
    {
      verb: 'create',
      resource: configMaps,
      subresource: '',
      namespace: 'default',
      name: '',
      query: {},
      identity: { name: 'jane', groups: [] },
    },
    0,
    noTracer,
  );
const request = { operation: 'CREATE', resource: configMaps, object: { metadata: { name: 'a' } }, old: undefined, options: {} } as const;
const all = [{ resources: ['*'], operations: ['*' as const] }];

/** Advances the clock by the next step on each reading. */
function clockOf(...steps: readonly number[]) {
  let [at, now] = [0, 0];
  return { monotonic: () => (now += steps[at++] ?? 0) };
}

describe('admission', () => {
  it("is recorded per plugin and in total, with upstream's metric names", async () => {
    const registry = new Registry();
    const metrics = new AdmissionMetrics(registry);
    const late: AdmissionPlugin = { matches: all, mutate: async ({ object }) => object ?? {} };
    const sure: AdmissionPlugin = { matches: all, mutate: ({ object }) => object ?? {} };
    const never: AdmissionPlugin = { matches: all, validate: () => deny('no') };
    const chain = new AdmissionChain([sure, late, never], {
      names: ['admission-limit-ranger', 'admission-webhooks', 'admission-validating-policy'],
      timing: { metrics, clock: clockOf(0, 0, 20, 30) },
    });
    await chain.mutate(call(), request);
    expect(() => chain.validate(call(), request)).toThrow('no');
    const text = await registry.metrics();
    const prefix = 'apiserver_admission_controller_admission_duration_seconds';
    for (const line of [
      `${prefix}_bucket{le="0.005",name="LimitRanger",type="admit",operation="CREATE",rejected="false"} 0`,
      `${prefix}_bucket{le="0.025",name="LimitRanger",type="admit",operation="CREATE",rejected="false"} 1`,
      `${prefix}_bucket{le="0.1",name="MutatingAdmissionWebhook",type="admit",operation="CREATE",rejected="false"} 1`,
      `${prefix}_count{name="ValidatingAdmissionPolicy",type="validate",operation="CREATE",rejected="true"} 1`,
      'apiserver_admission_step_admission_duration_seconds_count{type="admit",operation="CREATE",rejected="false"} 1',
      'apiserver_admission_step_admission_duration_seconds_count{type="validate",operation="CREATE",rejected="true"} 1',
      'apiserver_admission_step_admission_duration_seconds_summary{quantile="0.5",type="admit",operation="CREATE",rejected="false"} 0.05',
    ])
      expect(text).toContain(`${line}\n`);
  });

  it('labels plugins with their Kubernetes names', () => {
    expect(pluginMetricName('admission-namespace-lifecycle', 'admit')).toBe('NamespaceLifecycle');
    expect(pluginMetricName('admission-webhooks', 'validate')).toBe('ValidatingAdmissionWebhook');
    expect(pluginMetricName('my-own', 'validate')).toBe('MyOwn');
  });
});

it('authentication and authorization attempts are counted by result, users by username', async () => {
  const registry = new Registry();
  const metrics = new AuthMetrics(registry);
  metrics.observeAuthentication('kubelet', 0.003);
  metrics.observeAuthentication('jane@example.com', 0.003);
  metrics.observeAuthentication('jane', 0.003);
  metrics.observeAuthentication(undefined, 0.003);
  metrics.observeAuthorization('allow', 0.1);
  metrics.observeAuthorization('no-opinion', 0.1);
  for (const plugin of ['authz-rbac', 'authz-masters', undefined]) metrics.countDecision(plugin, 'allow');
  metrics.countDecision('authz-rbac', 'no-opinion');
  metrics.countDecision('authz-node', 'deny');
  metrics.countDecision('my-own', 'deny');
  const text = await registry.metrics();
  for (const line of [
    'authentication_attempts{result="success"} 3',
    'authentication_attempts{result="failure"} 1',
    'authentication_duration_seconds_bucket{le="0.002",result="success"} 0',
    'authentication_duration_seconds_bucket{le="0.004",result="success"} 3',
    'authenticated_user_requests{username="kubelet"} 1',
    'authenticated_user_requests{username="email_id"} 1',
    'authenticated_user_requests{username="other"} 1',
    'authorization_attempts_total{result="allowed"} 1',
    'authorization_attempts_total{result="no-opinion"} 1',
    'authorization_duration_seconds_count{result="allowed"} 1',
  ])
    expect(text).toContain(`${line}\n`);
  expect(text.split('\n').filter((line) => line.startsWith('apiserver_authorization_decisions_total'))).toEqual([
    'apiserver_authorization_decisions_total{type="RBAC",name="rbac",decision="allowed"} 1',
    'apiserver_authorization_decisions_total{type="Node",name="node",decision="denied"} 1',
    'apiserver_authorization_decisions_total{type="my-own",name="my-own",decision="denied"} 1',
  ]);
});

it('the remaining lifetimes of client certificates are counted', async () => {
  const registry = new Registry();
  const metrics = new AuthMetrics(registry);
  const keys = await testKeys();
  const { certificate } = await keys.issueWithin({ commonName: 'alice', usages: ['client'] }, { from: -1, to: 3 });
  const used = new X509Certificate(certificate);
  for (const days of [0, 0, 4]) metrics.observeClientCertificate(used, Date.now() + days * 86_400_000);
  const text = await registry.metrics();
  expect(text).toContain('apiserver_client_certificate_expiration_seconds_bucket{le="0"} 1\n');
  expect(text).toContain('apiserver_client_certificate_expiration_seconds_bucket{le="345600"} 3\n');
  expect(text).toContain('apiserver_client_certificate_expiration_seconds_count 3\n');
});

it('a summary keeps the last values, and the sum and count of all', async () => {
  const registry = new Registry();
  const series = new PrecomputedSummary({ name: 's', help: 's', labelNames: [], registry }).series({});
  for (let i = 1; i <= 2048; i++) series.observe(i <= 1024 ? 1_000_000 : i - 1024);
  const text = await registry.metrics();
  expect(text).toContain('s{quantile="0.5"} 512\n');
  expect(text).toContain('s{quantile="0.99"} 1014\n');
  expect(text).toContain('s_count 2048\n');
});
