import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto';
import validatingPolicy from '@oarlock/admission-validating-policy/plugin';
import {
  clusterRoleBindings,
  clusterRoles,
  deployments,
  namespaces,
  roleBindings,
  serviceAccounts,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '@oarlock/api/resources';
import authnServiceAccount from '@oarlock/authn-service-account/plugin';
import rbac from '@oarlock/authz-rbac/plugin';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { admissionRequest } from '@oarlock/spi/admission/contract';
import { Authn } from '@oarlock/spi/authn';
import { Authz } from '@oarlock/spi/authz';
import { resourceAttributes, user } from '@oarlock/spi/authz/contract';
import { Client, Informers } from '@oarlock/spi/client';
import { Keys } from '@oarlock/spi/cluster';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { openAdmission } from '@oarlock/testing/open-admission';
import { SignJWT } from 'jose';
import type { Operation } from './cost.ts';

const calls = 1_000;
const apiGroup = 'rbac.authorization.k8s.io';
const issuer = 'https://kubernetes.default.svc.cluster.local';

async function rbacOperation(): Promise<Operation> {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  for (let n = 0; n < 200; n++) {
    const roleRef = { apiGroup, kind: 'ClusterRole', name: `role-${n}` };
    const subjects = [{ apiGroup, kind: 'Group', name: `team-${n % 20}` }];
    api.seed(clusterRoles, {
      metadata: { name: `role-${n}` },
      rules: [{ apiGroups: ['apps'], resources: [`things${n}`], verbs: ['get'] }],
    });
    if (n % 2 === 0) api.seed(roleBindings, { metadata: { namespace: `ns-${n % 10}`, name: `b-${n}` }, roleRef, subjects });
    else api.seed(clusterRoleBindings, { metadata: { name: `b-${n}` }, roleRef, subjects });
  }
  const host = new PluginHost({ clock }).provide(Client, api.client()).provide(Informers, api.informers);
  const [authorizer] = host.add({ plugin: rbac, config: { defaults: false } }).get(Authz);
  if (authorizer === undefined) throw new Error('not created');
  await host.start();
  const attributes = resourceAttributes(user('someone', 'team-1', 'team-2', 'system:authenticated'), 'delete', 'pods', 'ns-2', 'web');
  const first = authorizer.authorize(attributes);
  await clock.settle();
  await first;
  return { name: 'RBAC decision', calls, run: () => authorizer.authorize(attributes) };
}

async function tokenOperation(): Promise<Operation> {
  const clock = new FakeClock();
  const api = memoryApi({ clock });
  api.seed(serviceAccounts, { metadata: { namespace: 'd', name: 'robot', uid: '1' } });
  const signingKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
  const unavailable = () => Promise.reject(new Error('the bench has no certificates'));
  const verifyingKeys = [createPublicKey(signingKey).export({ type: 'spki', format: 'pem' }) as string];
  const keys = { caBundle: '', issue: unavailable, sign: unavailable, serviceAccount: { issuer, signingKey, verifyingKeys } };
  const host = new PluginHost({ clock }).provide(Client, api.client()).provide(Keys, keys);
  const [authenticator] = host.add({ plugin: authnServiceAccount }).get(Authn);
  if (authenticator === undefined) throw new Error('not created');
  const now = Math.floor(clock.now() / 1000);
  const bearerToken = await new SignJWT({ 'kubernetes.io': { namespace: 'd', serviceaccount: { name: 'robot', uid: '1' } } })
    .setProtectedHeader({ alg: 'ES256' })
    .setIssuer(issuer)
    .setAudience(issuer)
    .setSubject('system:serviceaccount:d:robot')
    .setJti('bench')
    .setIssuedAt(now)
    .setExpirationTime(now + 3600)
    .sign(createPrivateKey(signingKey));
  const credentials = { bearerToken, headers: {}, path: '/' };
  if ((await authenticator.authenticate(credentials)).outcome !== 'authenticated') throw new Error('the token is not accepted');
  return { name: 'authentication of a known token', calls, run: () => authenticator.authenticate(credentials) };
}

async function policyOperation(): Promise<Operation> {
  const expressions = [
    'object.spec.replicas <= 5',
    "has(object.metadata.labels) && 'app' in object.metadata.labels",
    "object.metadata.name.startsWith('w')",
  ];
  const rule = { apiGroups: ['apps'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['deployments'] };
  const { plugin } = await openAdmission(validatingPolicy, {
    seed(api) {
      api.seed(namespaces, { metadata: { name: 'd' } });
      api.seed(validatingAdmissionPolicies, {
        metadata: { name: 'p' },
        spec: {
          failurePolicy: 'Fail',
          matchConstraints: { resourceRules: [rule] },
          validations: expressions.map((expression) => ({ expression })),
        },
      });
      api.seed(validatingAdmissionPolicyBindings, { metadata: { name: 'b' }, spec: { policyName: 'p', validationActions: ['Deny'] } });
    },
  });
  const web = { metadata: { namespace: 'd', name: 'web', labels: { app: 'web' } }, spec: { replicas: 3, selector: {}, template: {} } };
  const request = admissionRequest('CREATE', deployments, web);
  return { name: 'policy of three CEL expressions', calls: 200, run: () => plugin.validate?.(request) };
}

/** Returns the operations of authentication, authorization and policies. */
export const accessOperations = async (): Promise<readonly Operation[]> => [
  await rbacOperation(),
  await tokenOperation(),
  await policyOperation(),
];
