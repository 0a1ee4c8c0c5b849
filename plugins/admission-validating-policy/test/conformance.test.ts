import { deployments, namespaces, validatingAdmissionPolicies, validatingAdmissionPolicyBindings } from '@oarlock/api/resources';
import type { ValidatingAdmissionPolicySpec } from '@oarlock/api/types/admissionregistration-v1';
import { startCluster, type TestCluster } from '@oarlock/testing/start-cluster';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

// named after behaviours of the conformance list; API operations are in packages/apiserver/test/conformance
let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startCluster();
});
afterAll(() => cluster.stop());

const deployment = (namespace: string, name: string, replicas: number, labels: Record<string, string> = {}) => ({
  metadata: { namespace, name, labels },
  spec: {
    replicas,
    selector: { matchLabels: { app: name } },
    template: { metadata: { labels: { app: name } }, spec: { containers: [{ name: 'c', image: 'x' }] } },
  },
});

/** Creates a policy for Deployments of one namespace; resolves when it is enforced. */
async function enforced(name: string, spec: Partial<ValidatingAdmissionPolicySpec>): Promise<string> {
  const { client } = cluster;
  await client.create(namespaces, { metadata: { name, labels: { policed: name } } });
  await client.create(validatingAdmissionPolicies, {
    metadata: { name },
    spec: {
      matchConstraints: {
        namespaceSelector: { matchLabels: { policed: name } },
        resourceRules: [{ apiGroups: ['apps'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['deployments'] }],
      },
      ...spec,
    },
  });
  await client.create(validatingAdmissionPolicyBindings, { metadata: { name }, spec: { policyName: name, validationActions: ['Deny'] } });
  // a denied dry run proves that the policy is enforced
  await vi.waitFor(
    () => expect(client.create(deployments, deployment(name, 'marker', 100), { dryRun: true })).rejects.toThrow(/denied request/),
    { timeout: 120_000, interval: 20 },
  );
  return name;
}

describe('[sig-api-machinery] ValidatingAdmissionPolicy [Privileged:ClusterAdmin]', () => {
  it('should validate against a Deployment [Conformance]', async () => {
    const namespace = await enforced('replicas', {
      validations: [
        { expression: 'object.spec.replicas > 1', messageExpression: "'must have replicas > 1, got ' + string(object.spec.replicas)" },
        { expression: "namespaceObject.metadata.name == 'replicas' && object.spec.replicas < 50", message: 'too many' },
      ],
    });
    const { client } = cluster;
    expect((await client.create(deployments, deployment(namespace, 'replicated', 2))).spec?.replicas).toBe(2);
    await expect(client.create(deployments, deployment(namespace, 'single', 1))).rejects.toMatchObject({
      code: 422,
      reason: 'Invalid',
      message:
        "deployments.apps \"single\" is forbidden: ValidatingAdmissionPolicy 'replicas' with binding 'replicas' denied request: must have replicas > 1, got 1",
    });
  });

  it('should allow expressions to refer variables. [Conformance]', async () => {
    const namespace = await enforced('variables', {
      variables: [
        { name: 'replicas', expression: 'object.spec.replicas' },
        { name: 'oddReplicas', expression: 'variables.replicas % 2 == 1' },
      ],
      validations: [
        { expression: 'variables.replicas > 1', message: 'more than one' },
        { expression: 'variables.oddReplicas', message: 'odd' },
      ],
    });
    const { client } = cluster;
    await client.create(deployments, deployment(namespace, 'replicated', 3));
    await expect(client.create(deployments, deployment(namespace, 'single', 1))).rejects.toThrow(/more than one/);
    await expect(client.create(deployments, deployment(namespace, 'even', 4))).rejects.toThrow(/odd/);
  });
});
