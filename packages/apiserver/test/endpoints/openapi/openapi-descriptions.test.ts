import { schemaTable } from '@oarlock/api/generated/schema-table';
import { expect, it } from 'vitest';
import { describeField, describeItems, describeKind } from '../../../src/endpoints/openapi/openapi-descriptions.ts';
import { fieldDescriptions } from '../../../src/endpoints/openapi/internal/field-descriptions.ts';
import { podFieldDescriptions } from '../../../src/endpoints/openapi/internal/pod-field-descriptions.ts';
import { SchemaDefinitions } from '../../../src/endpoints/openapi/internal/schema-definitions.ts';

it('describe existing definitions and fields', () => {
  const known = new Map<string, Set<string>>();
  for (const text of Object.values(schemaTable))
    for (const [name, row] of Object.entries(JSON.parse(text) as Record<string, object>))
      known.set(name, new Set([...(known.get(name) ?? []), ...Object.keys(row).map((key) => key.replace('!', ''))]));
  for (const [definition, fields] of Object.entries({ ...podFieldDescriptions, ...fieldDescriptions }))
    for (const field of Object.keys(fields)) expect(known.get(definition), `${definition}.${field}`).toContain(field);
});

it.each([2, 3] as const)('are published in OpenAPI %i, beside references', (version) => {
  const definitions = new SchemaDefinitions(version);
  definitions.refTo('apps/v1.Deployment');
  const bodies = new Map(definitions.bodies());
  const described = (name: string, field: string) =>
    (bodies.get(name)?.['properties'] as Readonly<Record<string, { readonly description?: string }>> | undefined)?.[field]?.description;
  expect(bodies.get('io.k8s.api.apps.v1.Deployment')?.['description']).toBe(describeKind('apps/v1.Deployment'));
  expect(described('io.k8s.api.apps.v1.DeploymentSpec', 'replicas')).toBe(describeField('apps/v1.DeploymentSpec', 'replicas'));
  expect(described('io.k8s.api.core.v1.PodSpec', 'containers')).toMatch(/containers of the pod/);
  expect(described('io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta', 'labels')).toMatch(/selected/);
});

it.each([
  ['Service', 'List of services'],
  ['NetworkPolicy', 'List of network policies'],
  ['Ingress', 'List of ingresses'],
  ['CSIDriver', 'List of csidrivers'],
])('items of a list of %s are described as %s', (kind, description) => {
  expect(describeItems(kind)).toBe(description);
});
