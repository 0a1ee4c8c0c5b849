import { ruleWarnings } from '@oarlock/cluster/composition/match-warnings';
import type { AdmissionRule } from '@oarlock/spi/admission';
import { allow, Admission } from '@oarlock/spi/admission';
import { startCluster } from '@oarlock/testing/start-cluster';
import { expect, it } from 'vitest';
import { z } from 'zod';

const served = new Set(['pods', 'pods/exec', 'deployments.apps', 'deployments.apps/scale', 'events', 'events.events.k8s.io']);
const warningsOf = (resources: readonly string[], operations: readonly string[] = ['CREATE']) =>
  ruleWarnings('admission-x', [{ resources, operations } as AdmissionRule], served);

it.each([
  ['deployments', 'the API server does not serve "deployments": did you mean deployments.apps?'],
  ['deployments/scale', 'the API server does not serve "deployments/scale": did you mean deployments.apps/scale?'],
  ['pod', 'the API server does not serve "pod": did you mean pods?'],
  ['Pods', 'the API server does not serve "Pods": did you mean pods?'],
  ['deployments.extensions', 'the API server does not serve "deployments.extensions": did you mean deployments.apps?'],
  [
    'trucks.example.com',
    'the API server does not serve "trucks.example.com": the rule matches nothing until a CustomResourceDefinition defines it',
  ],
])('reports the resource %s', (resource, message) => {
  expect(warningsOf([resource])).toEqual([`admission-x: matches[0].resources: ${message}`]);
});

it('reports an unknown operation', () => {
  expect(warningsOf(['pods'], ['create', 'LIST'])).toEqual([
    'admission-x: matches[0].operations: unknown operation "create": did you mean CREATE?',
    'admission-x: matches[0].operations: unknown operation "LIST": operations are CREATE, UPDATE, DELETE, CONNECT, *',
  ]);
});

it('reports nothing for rules that match', () => {
  expect(warningsOf(['*', 'pods', 'pods/exec', 'deployments.apps'], ['*', 'UPDATE', 'DELETE', 'CONNECT'])).toEqual([]);
});

it('a started cluster lists the rules of its plugins that match nothing', async () => {
  const plugin = Admission.plugin({
    id: 'admission-wrong',
    config: z.strictObject({}),
    create: () => ({ matches: [{ resources: ['deployments', 'configmaps'], operations: ['CREATE'] }], validate: () => allow }),
  });
  await using cluster = await startCluster({ plugins: [plugin] });
  expect(cluster.warnings).toEqual([
    'admission-wrong: matches[0].resources: the API server does not serve "deployments": did you mean deployments.apps?',
  ]);
});
