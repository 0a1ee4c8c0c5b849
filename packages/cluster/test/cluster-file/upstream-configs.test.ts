import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readClusterFile } from '../../src/composition/read-cluster-file.ts';
import { createPlan } from '../../src/composition/create-plan.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'upstream-configs-'));
});
afterEach(() => rm(folder, { recursive: true }));

async function read(spec: string, files: Record<string, string> = {}) {
  const file = join(folder, 'cluster.yaml');
  await writeFile(file, `apiVersion: oarlock.dev/v1\nkind: Cluster\nspec:\n${spec}`);
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return readClusterFile(file);
}

describe('withUpstreamConfigs', () => {
  it('adds token issuers and configures anonymous authentication from an AuthenticationConfiguration', async () => {
    const text = (anonymous: string) => `
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
  - issuer: { url: https://issuer.example, audiences: [us], certificateAuthority: "-----BEGIN CERTIFICATE-----" }
    claimMappings: { username: { claim: sub, prefix: 'oidc:' } }
    claimValidationRules: [{ expression: 'claims.aud == "us"', message: no }]
${anonymous}`;
    const conditions = 'anonymous: { enabled: true, conditions: [{ path: /livez }] }';
    const some = await read('  authenticationConfig: ./authn.yaml\n', { 'authn.yaml': text(conditions) });
    expect(some.spec.authn?.map(({ use }) => use)).toEqual([
      'authn-client-certificate',
      'authn-service-account',
      'authn-bootstrap-token',
      'authn-oidc',
      'authn-anonymous',
    ]);
    expect(some.spec.authn?.at(-1)?.config).toEqual({ paths: ['/livez'] });
    expect((await createPlan(some)).plugins.find(({ name }) => name === 'authn-oidc')?.config).toMatchObject({
      jwt: [{ issuer: { url: 'https://issuer.example' } }],
    });
    const none = await read('  authenticationConfig: ./authn.yaml\n', { 'authn.yaml': text('anonymous: { enabled: false }') });
    expect(none.spec.authn?.some(({ use }) => use === 'authn-anonymous')).toBe(false);
  });

  it('replaces the authorizers after masters by those of an AuthorizationConfiguration', async () => {
    const text = `
apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
  - type: Webhook
    name: guard
    webhook:
      timeout: 3s
      authorizedTTL: 30s
      unauthorizedTTL: 1m
      subjectAccessReviewVersion: v1
      matchConditionSubjectAccessReviewVersion: v1
      failurePolicy: Deny
      connectionInfo: { type: KubeConfigFile, kubeConfigFile: guard.yaml }
      matchConditions: [{ expression: has(request.resourceAttributes) }]
  - { type: Node, name: node }
  - { type: RBAC, name: rbac }
`;
    const { spec } = await read('  authorizationConfig: authz.yaml\n', { 'authz.yaml': text });
    expect(spec.authz?.map(({ use, name }) => name ?? use)).toEqual(['authz-masters', 'guard', 'authz-node', 'authz-rbac']);
    expect(spec.authz?.[1]?.config).toEqual({
      kubeconfigFile: join(folder, 'guard.yaml'),
      timeoutSeconds: 3,
      authorizedCacheSeconds: 30,
      unauthorizedCacheSeconds: 60,
      failurePolicy: 'Deny',
      matchConditions: [{ expression: 'has(request.resourceAttributes)' }],
    });
  });

  it('rejects invalid files with the position of their path in the cluster file', async () => {
    await expect(read('  authorizationConfig: authz.yaml\n')).rejects.toThrow(/cluster.yaml:4:\d+.*authz.yaml cannot be read/s);
    const text = 'apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{ type: Magic, name: a }]\n';
    await expect(read('  authorizationConfig: authz.yaml\n', { 'authz.yaml': text })).rejects.toThrow(/authorizers.0.type/);
  });
});
