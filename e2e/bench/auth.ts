// The cost of authentication, authorization and admission. In process, from source; the last part runs a whole cluster.
import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto';
import 'reflect-metadata';
import audit from '@oarlock/audit-log/plugin';
import authnServiceAccount from '@oarlock/authn-service-account/plugin';
import rbac from '@oarlock/authz-rbac/plugin';
import validatingPolicy from '@oarlock/admission-validating-policy/plugin';
import type { Resource } from '@oarlock/api/resource';
import {
  clusterRoleBindings,
  clusterRoles,
  configMaps,
  deployments,
  namespaces,
  roleBindings,
  serviceAccounts,
  tokenReviews,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '@oarlock/api/resources';
import type { TokenRequest } from '@oarlock/api/types/authentication-v1';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission, allow } from '@oarlock/spi/admission';
import { admissionRequest } from '@oarlock/spi/admission/contract';
import { Audit } from '@oarlock/spi/audit';
import { auditEvent } from '@oarlock/spi/audit/contract';
import { Authn } from '@oarlock/spi/authn';
import { Authz } from '@oarlock/spi/authz';
import { resourceAttributes, user } from '@oarlock/spi/authz/contract';
import { Client, Informers } from '@oarlock/spi/client';
import { Keys } from '@oarlock/spi/cluster';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { openAdmission } from '@oarlock/testing/open-admission';
import { startCluster } from '@oarlock/testing/start-cluster';
import { SignJWT } from 'jose';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { median, print, type Figure } from './support/statistics.ts';

const group = 'rbac.authorization.k8s.io';

/** Returns the microseconds of one call in this process's CPU time, garbage collection included: the median of several batches. */
async function microseconds(call: () => unknown, calls = 20_000, batches = 9): Promise<number> {
  const once = async () => {
    const began = process.cpuUsage();
    for (let n = 0; n < calls; n++) {
      const answer = call();
      if (answer instanceof Promise) await answer;
    }
    const { user, system } = process.cpuUsage(began);
    return (user + system) / calls;
  };
  await once();
  const durations: number[] = [];
  for (let round = 0; round < batches; round++) durations.push(await once());
  return median(durations);
}

async function rbacDecision(): Promise<readonly Figure[]> {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  const ruleFor = (n: number) => ({ apiGroups: ['apps'], resources: [`things${n}`, 'widgets/status'], verbs: ['get', 'list', 'watch'] });
  for (let n = 0; n < 1_000; n++)
    api.seed(clusterRoles, { metadata: { name: `role-${n}` }, rules: [ruleFor(n), ruleFor(n + 1), ruleFor(n + 2)] });
  for (let n = 0; n < 5_000; n++) {
    const roleRef = { apiGroup: group, kind: 'ClusterRole', name: `role-${n % 1_000}` };
    const subjects = [
      { apiGroup: group, ...(n % 250 === 1 ? { kind: 'Group', name: 'team' } : { kind: 'User', name: `user-${n % 1_500}` }) },
    ];
    if (n % 2 === 0) api.seed(roleBindings, { metadata: { namespace: `ns-${n % 100}`, name: `b-${n}` }, roleRef, subjects });
    else api.seed(clusterRoleBindings, { metadata: { name: `b-${n}` }, roleRef, subjects });
  }
  const host = new PluginHost({ clock }).provide(Client, api.client()).provide(Informers, api.informers);
  const [authorizer] = host.add({ plugin: rbac, config: { defaults: false } }).get(Authz);
  if (authorizer === undefined) throw new Error('not created');
  await host.start();
  const forbiddenRequest = resourceAttributes(user('user-2', 'team', 'system:authenticated'), 'delete', 'pods', 'ns-2', 'web');
  const asked = authorizer.authorize(forbiddenRequest);
  await clock.settle();
  await asked;
  const value = await microseconds(() => authorizer.authorize(forbiddenRequest));
  await host.stop();
  await api.stop();
  return [{ what: 'RBAC, 1,000 roles and 5,000 bindings (goal 20)', value, unit: 'us' }];
}

async function policyOfThree(): Promise<readonly Figure[]> {
  const expressions = [
    'object.spec.replicas <= 5',
    "has(object.metadata.labels) && 'app' in object.metadata.labels",
    "object.metadata.name.startsWith('w')",
  ];
  const { plugin, dispose } = await openAdmission(validatingPolicy, {
    seed(api) {
      api.seed(namespaces, { metadata: { name: 'd' } });
      api.seed(validatingAdmissionPolicies, {
        metadata: { name: 'p' },
        spec: {
          failurePolicy: 'Fail',
          matchConstraints: {
            resourceRules: [{ apiGroups: ['apps'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['deployments'] }],
          },
          validations: expressions.map((expression) => ({ expression })),
        },
      });
      api.seed(validatingAdmissionPolicyBindings, { metadata: { name: 'b' }, spec: { policyName: 'p', validationActions: ['Deny'] } });
    },
  });
  const web = { metadata: { namespace: 'd', name: 'web', labels: { app: 'web' } }, spec: { replicas: 3, selector: {}, template: {} } };
  const request = admissionRequest('CREATE', deployments, web);
  const verdict = await plugin.validate?.(request);
  if (verdict?.allowed !== true) throw new Error(JSON.stringify(verdict));
  const value = await microseconds(() => plugin.validate?.(request), 5_000);
  await dispose();
  return [{ what: 'a ValidatingAdmissionPolicy of three (goal 100)', value, unit: 'us' }];
}

async function tokens(): Promise<readonly Figure[]> {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  api.seed(serviceAccounts, { metadata: { namespace: 'd', name: 'robot', uid: '1' } });
  const issuer = 'https://kubernetes.default.svc.cluster.local';
  const signingKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
  const none = () => Promise.reject(new Error('none'));
  const verifyingKeys = [createPublicKey(signingKey).export({ type: 'spki', format: 'pem' }) as string];
  const keys = { caBundle: '', issue: none, sign: none, serviceAccount: { issuer, signingKey, verifyingKeys } };
  const host = new PluginHost({ clock }).provide(Client, api.client()).provide(Keys, keys);
  const [authenticator] = host.add({ plugin: authnServiceAccount }).get(Authn);
  if (authenticator === undefined) throw new Error('not created');
  const now = Math.floor(clock.now() / 1000);
  const token = (jti: string) =>
    new SignJWT({ 'kubernetes.io': { namespace: 'd', serviceaccount: { name: 'robot', uid: '1' } } })
      .setProtectedHeader({ alg: 'ES256' })
      .setIssuer(issuer)
      .setAudience(issuer)
      .setSubject('system:serviceaccount:d:robot')
      .setJti(jti)
      .setIssuedAt(now)
      .setExpirationTime(now + 3600)
      .sign(createPrivateKey(signingKey));
  const known = { bearerToken: await token('known'), headers: {}, path: '/' };
  if ((await authenticator.authenticate(known)).outcome !== 'authenticated') throw new Error('the token is not taken');
  const cached = await microseconds(() => authenticator.authenticate(known));
  const fresh = await Promise.all(Array.from({ length: 2_000 }, (_, n) => token(String(n))));
  let at = 0;
  const first = await microseconds(() => authenticator.authenticate({ ...known, bearerToken: fresh[at++ % fresh.length] ?? '' }), 200, 8);
  await host.stop();
  await api.stop();
  return [
    { what: 'a token of a service account, known by its hash', value: cached, unit: 'us', reference: { what: 'verified', value: first } },
  ];
}

async function auditLine(): Promise<readonly Figure[]> {
  const path = join(tmpdir(), `oarlock-bench-${process.pid}`, 'audit.log');
  const host = new PluginHost().add({ plugin: audit, config: { path, mode: 'batch', bufferSize: 1_000_000 } });
  await host.start();
  const [sink] = host.get(Audit);
  const event = auditEvent(1);
  const value = await microseconds(() => void sink?.record(event), 10_000, 5);
  await host.stop();
  await rm(join(path, '..'), { recursive: true });
  return [{ what: 'an audit event, written down by audit-log', value, unit: 'us' }];
}

/** Creates through the whole request pipeline, alternately with and without a plugin. */
async function ownPlugin(): Promise<readonly Figure[]> {
  const plugin = Admission.plugin({
    id: 'admission-bench',
    config: z.strictObject({}),
    create: () => ({
      matches: [{ resources: ['configmaps'], operations: ['CREATE'] }],
      mutate: ({ object }) => (object === undefined ? allow : { ...object, metadata: { ...object.metadata, labels: { owner: 'bench' } } }),
      validate: ({ object }) => (object?.metadata?.labels?.['owner'] === undefined ? { allowed: false, message: 'no owner' } : allow),
    }),
  });
  const [bare, guarded] = await Promise.all([startCluster(), startCluster({ plugins: [plugin] })]);
  const labels = { owner: 'bench' };
  let n = 0;
  const create = (cluster: typeof bare) => () =>
    cluster.client.create(configMaps, { metadata: { namespace: 'default', name: `m-${n++}`, labels } }, { dryRun: true });
  const [without, more]: [number[], number[]] = [[], []];
  // other load on the machine affects both of a pair alike
  for (let round = 0; round < 60; round++) {
    const alone = await microseconds(create(bare), 250, 1);
    without.push(alone);
    more.push((await microseconds(create(guarded), 250, 1)) - alone);
  }
  const seconds = await revocation(bare);
  await Promise.all([bare.stop(), guarded.stop()]);
  return [
    {
      what: 'a plugin that changes and judges, more (goal 20)',
      value: median(more),
      unit: 'us',
      reference: { what: 'create', value: median(without) },
    },
    { what: 'a token whose account is gone, until refused (goal 10)', value: seconds, unit: 's' },
  ];
}

async function revocation(cluster: Awaited<ReturnType<typeof startCluster>>): Promise<number> {
  const { client } = cluster;
  await client.create(serviceAccounts, { metadata: { namespace: 'default', name: 'robot' } });
  const request: TokenRequest = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { audiences: [] } };
  const name = { namespace: 'default', name: 'robot' };
  const { status } = await client.create(serviceAccounts as unknown as Resource<TokenRequest>, request, { subresource: 'token', name });
  const review = () =>
    client.create(tokenReviews, { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview', spec: { token: status?.token ?? '' } });
  if ((await review()).status?.authenticated !== true) throw new Error('the token is not taken');
  await client.delete(serviceAccounts, name);
  const began = performance.now();
  while ((await review()).status?.authenticated === true) await delay(100);
  return (performance.now() - began) / 1000;
}

const figures: Figure[] = [];
for (const measure of [rbacDecision, policyOfThree, tokens, auditLine, ownPlugin]) figures.push(...(await measure()));
print(figures);
