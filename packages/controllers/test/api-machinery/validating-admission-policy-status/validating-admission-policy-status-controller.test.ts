import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import type { ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec } from '@oarlock/api/types/admissionregistration-v1';
import { customResourceDefinitions, validatingAdmissionPolicies } from '@oarlock/api/resources';
import controller from '@oarlock/controllers/api-machinery/validating-admission-policy-status/validating-admission-policy-status-controller';
import { controllerPluginContract } from '@oarlock/testing/controller-contract';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { runControllers } from '../../support/running-controllers.ts';

const rule = (group: string, version: string, resource: string) => ({
  resourceRules: [{ apiGroups: [group], apiVersions: [version], operations: ['CREATE'], resources: [resource] }],
});
const policy = (spec: ValidatingAdmissionPolicySpec): ValidatingAdmissionPolicy => ({
  apiVersion: 'admissionregistration.k8s.io/v1',
  kind: 'ValidatingAdmissionPolicy',
  metadata: { name: 'p' },
  spec: { failurePolicy: 'Fail', ...spec },
});
const foos: CustomResourceDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'foos.example.com' },
  spec: {
    group: 'example.com',
    scope: 'Namespaced',
    names: { plural: 'foos', kind: 'Foo' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: { type: 'object', properties: { spec: { type: 'object', properties: { size: { type: 'integer' } } } } },
        },
      },
    ],
  },
};
const statusOf = (api: MemoryApi) => api.object(validatingAdmissionPolicies, { name: 'p' })?.status;
const warningsOf = (api: MemoryApi) => statusOf(api)?.typeChecking?.expressionWarnings;

describe('validatingadmissionpolicy-status controller', () => {
  it('reports type errors of the matched kinds, once per generation', async () => {
    const spec: ValidatingAdmissionPolicySpec = {
      matchConstraints: rule('apps', 'v1', 'deployments'),
      variables: [{ name: 'replicas', expression: 'object.spec.replicas' }],
      validations: [
        { expression: 'object.spec.replicas > 1 && variables.replicas < 5' },
        { expression: "variables.replicas == 'many'" },
        { expression: 'object.spec.maxReplicas > 1', messageExpression: "'has ' + object.spec.paused" },
      ],
    };
    const { api, whenIdle } = await runControllers([controller], {
      defaults: false,
      seed: (created) => created.seed(validatingAdmissionPolicies, policy(spec)),
    });
    expect(statusOf(api)?.observedGeneration).toBe(1);
    const warnings = warningsOf(api);
    expect(warnings?.map(({ fieldRef }) => fieldRef)).toEqual([
      'spec.validations[1].expression',
      'spec.validations[2].expression',
      'spec.validations[2].messageExpression',
    ]);
    expect(warnings?.[0]?.warning).toContain(
      "apps/v1, Kind=Deployment: ERROR: <input>:1:20: found no matching overload for '_==_' applied to '(int, string)'",
    );
    expect(warnings?.[1]?.warning).toContain("undefined field 'maxReplicas'");
    await api.client().patch(validatingAdmissionPolicies, { name: 'p' }, 'merge', { metadata: { labels: { a: 'b' } } });
    await whenIdle();
    expect(api.requests.filter(({ subresource }) => subresource === 'status')).toHaveLength(1);
  });

  it('applies the status as its own field manager', async () => {
    const { api } = await runControllers([controller], {
      seed: (created) =>
        created.seed(validatingAdmissionPolicies, policy({ matchConstraints: rule('apps', 'v1', 'deployments'), validations: [] })),
    });
    expect(statusOf(api)).toEqual({ observedGeneration: 1, typeChecking: {} });
    expect(api.requests.find(({ verb }) => verb === 'patch')).toMatchObject({
      patchType: 'apply',
      subresource: 'status',
      query: { fieldManager: 'validatingadmissionpolicy-status-controller', force: 'true' },
    });
  });

  it('reports type errors by the schemas of custom resources', async () => {
    const spec: ValidatingAdmissionPolicySpec = {
      matchConstraints: rule('example.com', 'v1', 'foos'),
      validations: [
        { expression: "object.spec.size > 1 && object.metadata.labels['a'] == 'b'" },
        { expression: "object.spec.size == 'large'" },
        { expression: 'object.spec.weight > 1' },
      ],
    };
    const { api } = await runControllers([controller], {
      defaults: false,
      seed: (created) => {
        created.seed(customResourceDefinitions, foos);
        created.seed(validatingAdmissionPolicies, policy(spec));
      },
    });
    const warnings = warningsOf(api);
    expect(warnings?.map(({ fieldRef }) => fieldRef)).toEqual(['spec.validations[1].expression', 'spec.validations[2].expression']);
    expect(warnings?.[0]?.warning).toContain("example.com/v1, Kind=Foo: ERROR: <input>:1:18: found no matching overload for '_==_'");
    expect(warnings?.[1]?.warning).toContain("undefined field 'weight'");
  });
});

const checked = (expression: string) => policy({ matchConstraints: rule('apps', 'v1', 'deployments'), validations: [{ expression }] });
controllerPluginContract(controller, [
  {
    title: 'type-checks each generation',
    steps: [
      (api) => void api.seed(validatingAdmissionPolicies, checked('object.spec.replicas > 1')),
      async (api) =>
        void (await api.client().patch(validatingAdmissionPolicies, { name: 'p' }, 'merge', {
          spec: checked('object.spec.replica > 1').spec,
        })),
    ],
    expectResult: (api) => {
      expect(statusOf(api)?.observedGeneration).toBe(2);
      expect(warningsOf(api)).toMatchObject([{ fieldRef: 'spec.validations[0].expression' }]);
    },
  },
]);
