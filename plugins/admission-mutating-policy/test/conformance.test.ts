import { deployments, mutatingAdmissionPolicies, mutatingAdmissionPolicyBindings, namespaces } from '@oarlock/api/resources';
import type { Mutation } from '@oarlock/api/types/admissionregistration-v1';
import { startCluster, type TestCluster } from '@oarlock/testing/start-cluster';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

// named after behaviours of the conformance list; API operations are in packages/apiserver/test/conformance
let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startCluster();
});
afterAll(() => cluster.stop());

const deployment = (namespace: string, name: string) => ({
  metadata: { namespace, name },
  spec: {
    replicas: 1,
    selector: { matchLabels: { app: name } },
    template: { metadata: { labels: { app: name } }, spec: { containers: [{ name: 'c', image: 'x' }] } },
  },
});

async function policy(name: string, mutation: Mutation): Promise<string> {
  const { client } = cluster;
  await client.create(namespaces, { metadata: { name, labels: { policed: name } } });
  await client.create(mutatingAdmissionPolicies, {
    metadata: { name },
    spec: {
      reinvocationPolicy: 'Never',
      matchConstraints: {
        namespaceSelector: { matchLabels: { policed: name } },
        resourceRules: [{ apiGroups: ['apps'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['deployments'] }],
      },
      mutations: [mutation],
    },
  });
  await client.create(mutatingAdmissionPolicyBindings, { metadata: { name }, spec: { policyName: name } });
  return name;
}

describe('[sig-api-machinery] MutatingAdmissionPolicy [Privileged:ClusterAdmin]', () => {
  it('should mutate a Deployment [Conformance]', async () => {
    const namespace = await policy('more-replicas', {
      patchType: 'ApplyConfiguration',
      applyConfiguration: { expression: 'Object{spec: Object.spec{replicas: object.spec.replicas + 100}}' },
    });
    const { client } = cluster;
    await vi.waitFor(
      async () => expect((await client.create(deployments, deployment(namespace, 'marker'), { dryRun: true })).spec?.replicas).toBe(101),
      { timeout: 120_000, interval: 20 },
    );
    expect((await client.create(deployments, deployment(namespace, 'changed'))).spec?.replicas).toBe(101);
  });

  it('should mutate a Deployment with annotations [Conformance]', async () => {
    const namespace = await policy('annotate', {
      patchType: 'JSONPatch',
      jsonPatch: {
        expression:
          '[JSONPatch{op: "add", path: "/metadata/annotations", value: Object.metadata.annotations{}}, JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("my/annotation"), value: "yes"}]',
      },
    });
    const { client } = cluster;
    const annotations = { 'my/annotation': 'yes' };
    await vi.waitFor(
      async () =>
        expect((await client.create(deployments, deployment(namespace, 'marker'), { dryRun: true })).metadata?.annotations).toMatchObject(
          annotations,
        ),
      { timeout: 120_000, interval: 20 },
    );
    expect((await client.create(deployments, deployment(namespace, 'changed'))).metadata?.annotations).toMatchObject(annotations);
  });
});
