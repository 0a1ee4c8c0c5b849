import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { customResourceDefinitions } from '@oarlock/api/resources';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import { startCluster } from '@oarlock/testing/start-cluster';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { types } from '../../src/export/custom-resource-types.ts';

const lamps: CustomResourceDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'lamps.example.com' },
  spec: {
    group: 'example.com',
    scope: 'Cluster',
    names: { kind: 'Lamp', plural: 'lamps' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: { type: 'object', properties: { spec: { type: 'object', properties: { watts: { type: 'integer' } } } } },
        },
      },
    ],
  },
};

describe('oarlock plugins types', () => {
  let folder: string;
  const path = (name: string) => join(folder, name);
  const write = async (sources: readonly string[], kubeconfig?: string) => {
    await types(sources, { dataDir: path('none'), timeout: 30, output: path('types.ts'), ...(kubeconfig !== undefined && { kubeconfig }) });
    return readFile(path('types.ts'), 'utf8');
  };

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'oarlock-cli-types-'));
    const other = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' } };
    await writeFile(path('crd.yaml'), [stringify(other), stringify(lamps)].join('---\n'));
    await writeFile(path('list.json'), JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [lamps] }));
    await writeFile(path('none.yaml'), stringify(other));
    await writeFile(path('broken.yaml'), 'a: [');
    const { versions: _, ...spec } = lamps.spec;
    await writeFile(path('invalid.yaml'), stringify({ ...lamps, spec: { ...spec, versions: [] } }));
    await writeFile(path('names.yaml'), stringify({ ...lamps, spec: { ...lamps.spec, names: { kind: 'a b', plural: 'lamps' } } }));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('writes the same text for YAML documents, a list, and a definition in a cluster', async () => {
    const text = await write([path('crd.yaml')]);
    expect(text).toContain("export const lamps: Resource<Lamp> = resource('example.com', 'v1', 'lamps', 'Lamp', false);");
    expect(text).toContain('  readonly watts?: number;');
    expect(await write([path('list.json')])).toBe(text);
    await using cluster = await startCluster({ roles: ['apiserver'] });
    await cluster.client.create(customResourceDefinitions, lamps);
    expect(await write(['lamps.example.com'], cluster.kubeconfig)).toBe(text);
    await expect(write(['desks.example.com'], cluster.kubeconfig)).rejects.toThrow(
      'customresourcedefinitions.apiextensions.k8s.io "desks.example.com" not found',
    );
  });

  it.each([
    ['none.yaml', /none\.yaml has no CustomResourceDefinition of apiextensions\.k8s\.io\/v1$/],
    ['broken.yaml', /broken\.yaml: Flow sequence/],
    ['invalid.yaml', /invalid\.yaml: spec\.versions: /],
    ['names.yaml', /lamps\.example\.com: the kind "a b" cannot be the name of a type$/],
    ['absent.yaml', /^the file .*absent\.yaml does not exist$/],
  ])('rejects %s', async (name, message) => {
    await expect(types([path(name)], { dataDir: path('none'), timeout: 30 })).rejects.toThrow(message);
  });
});
