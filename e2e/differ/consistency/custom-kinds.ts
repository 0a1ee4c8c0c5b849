import type { Schema } from '@oarlock/api/schema/schema';
import { schemaOf } from '@oarlock/api/schema/schema';
import { until } from '../../harness/until.ts';
import type { CorpusKind } from '../corpus/kinds.ts';
import { decodeBody } from '../compare/normalize.ts';
import { valueAt } from '../request.ts';
import type { Target } from '../target/target.ts';

const group = (run: string) => `${run}.example.com`;
const spec = {
  type: 'object',
  required: ['size'],
  properties: {
    size: { type: 'integer', minimum: 1, maximum: 10 },
    color: { type: 'string', enum: ['red', 'green'], default: 'red' },
    parts: {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['name'],
      items: { type: 'object', required: ['name'], properties: { name: { type: 'string' }, weight: { type: 'integer' } } },
    },
  },
};
const schema = { type: 'object', properties: { spec, status: { type: 'object', properties: { ready: { type: 'boolean' } } } } };
const version = (name: string, storage: boolean) => ({
  name,
  served: true,
  storage,
  schema: { openAPIV3Schema: schema },
  subresources: { status: {} },
  additionalPrinterColumns: [{ name: 'Size', type: 'integer', jsonPath: '.spec.size' }],
});

const string: Schema = { type: 'string' };
const integer: Schema = { type: 'integer', format: 'int64' };
const struct = (properties: Readonly<Record<string, Schema>>, required: readonly string[] = []): Schema => ({
  type: 'object',
  properties: new Map(Object.entries(properties)),
  required,
});
const kindSchema = struct({
  metadata: schemaOf({ group: '', version: 'v1', kind: 'ObjectMeta' }) ?? struct({}),
  spec: struct({ size: integer, color: string, parts: { type: 'array', items: struct({ name: string, weight: integer }, ['name']) } }, [
    'size',
  ]),
});

/** Creates a definition with two versions and waits until both are served. Returns its kinds. @throws Error if it is rejected or never served */
export async function createCustomKinds(target: Target, run: string): Promise<readonly CorpusKind[]> {
  const names = { plural: 'gadgets', singular: 'gadget', kind: 'Gadget', listKind: 'GadgetList' };
  const definition = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `gadgets.${group(run)}` },
    spec: { group: group(run), scope: 'Namespaced', names, versions: [version('v1', true), version('v1beta1', false)] },
  };
  const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  const created = await target.send({ method: 'POST', path, body: definition });
  if (created.status !== 201) throw new Error(`the custom resource definition was rejected: ${created.body.toString('utf8')}`);
  await until('the custom resource is served', async () => {
    const answer = await target.send({ method: 'GET', path: `/apis/${group(run)}/v1beta1` });
    const resources = valueAt(decodeBody(answer), 'resources');
    return Array.isArray(resources) && resources.length > 0;
  });
  return ['v1', 'v1beta1'].map((each) => customKind(run, each));
}

function customKind(run: string, version: string): CorpusKind {
  const preferred = version === 'v1';
  return {
    id: preferred ? 'gadgets' : `gadgets.${version}`,
    kind: {
      group: group(run),
      version,
      resource: 'gadgets',
      singular: 'gadget',
      kind: 'Gadget',
      listKind: 'GadgetList',
      namespaced: true,
      verbs: ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'],
      shortNames: [],
      categories: [],
      subresources: [{ name: 'status', group: group(run), version, kind: 'Gadget', verbs: ['get', 'patch', 'update'] }],
      servedByDefault: true,
      preferred,
    },
    apiVersion: `${group(run)}/${version}`,
    schema: kindSchema,
    object: { spec: { size: 3, parts: [{ name: 'a', weight: 1 }] } },
    status: { ready: true },
    change: { spec: { size: 4 } },
    isCustom: true,
  };
}

/** Deletes the definition with its objects. */
export async function removeCustomKinds(target: Target, run: string): Promise<void> {
  const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.${group(run)}`;
  await target.send({ method: 'DELETE', path });
}
