import { describe, expect, it } from 'vitest';
import { groupOf, groups, kindOf, kindOfResource, kinds } from '@oarlock/api/kinds';
import { definitionOf, schemaOf, type Schema } from '@oarlock/api/schema/schema';
import * as resources from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';

describe('kinds', () => {
  it('contain every resource with its discovery information', () => {
    expect(kindOfResource({ group: '', version: 'v1', resource: 'pods' })).toMatchObject({
      kind: 'Pod',
      listKind: 'PodList',
      singular: 'pod',
      namespaced: true,
      shortNames: ['po'],
      categories: ['all'],
      servedByDefault: true,
      preferred: true,
    });
    const pod = kindOf({ group: '', version: 'v1', kind: 'Pod' });
    expect(pod?.subresources.find((s) => s.name === 'eviction')).toEqual({
      name: 'eviction',
      group: 'policy',
      version: 'v1',
      kind: 'Eviction',
      verbs: ['create'],
    });
    expect(
      kindOf({ group: 'apps', version: 'v1', kind: 'Deployment' })?.subresources.map((s) => `${s.name} ${s.group}/${s.version} ${s.kind}`),
    ).toEqual(['scale autoscaling/v1 Scale', 'status apps/v1 Deployment']);
    expect(kinds.filter((k) => k.servedByDefault)).not.toHaveLength(0);
  });
  it('are ordered by group and version as in discovery', () => {
    expect(groups.slice(0, 4).map((g) => g.name)).toEqual(['', 'apiregistration.k8s.io', 'apps', 'events.k8s.io']);
    expect(groupOf('autoscaling')).toMatchObject({ versions: ['v2', 'v1'], preferredVersion: 'v2' });
    expect(groupOf('resource.k8s.io')).toMatchObject({ versions: ['v1', 'v1beta2', 'v1beta1', 'v1alpha3'], defaultVersions: ['v1'] });
  });
  it('match the resource handles', () => {
    const all = Object.values(resources as Record<string, Resource>);
    expect(all).toHaveLength(kinds.length);
    for (const r of all) expect(kindOfResource(r)).toMatchObject({ kind: r.kind, namespaced: r.namespaced });
    expect(resources.horizontalPodAutoscalers.version).toBe('v2');
    expect(resources.events.group).toBe('');
    expect(resources.eventsV1.group).toBe('events.k8s.io');
  });
});

describe('schemaOf', () => {
  it('resolves refs lazily to shared schemas', () => {
    const deployment = schemaOf({ group: 'apps', version: 'v1', kind: 'Deployment' });
    const spec = deployment?.properties?.get('spec');
    const pod = spec?.properties?.get('template')?.properties?.get('spec');
    expect(pod?.name).toBe('core/v1.PodSpec');
    expect(pod).toBe(definitionOf('core/v1.PodSpec'));
    expect(spec?.required).toEqual(['selector', 'template']);
    expect(pod?.properties?.get('containers')).toMatchObject({
      type: 'array',
      listType: 'map',
      listMapKeys: ['name'],
      patchStrategy: ['merge'],
      patchMergeKey: 'name',
    });
    expect(spec?.properties?.get('strategy')).toMatchObject({ type: 'object', patchStrategy: ['retainKeys'] });
    expect(schemaOf({ group: '', version: 'v1', kind: 'LabelSelector' })?.mapType).toBe('atomic');
  });
  it('distinguishes structs, maps and raw values', () => {
    const secret = schemaOf({ group: '', version: 'v1', kind: 'Secret' })?.properties;
    expect(secret?.get('data')?.additionalProperties).toEqual({ type: 'string', format: 'byte' });
    expect(schemaOf({ group: 'apps', version: 'v1', kind: 'ControllerRevision' })?.properties?.get('data')).toEqual({
      type: 'any',
      format: 'raw',
    });
    expect(schemaOf({ group: '', version: 'v1', kind: 'nope' })).toBeUndefined();
    expect(schemaOf({ group: '__proto__', version: 'v1', kind: 'constructor' })).toBeUndefined();
  });
  it('reaches every definition from every kind', () => {
    const seen = new Set<Schema>();
    const visit = (schema: Schema | undefined) => {
      if (schema === undefined || seen.has(schema)) return;
      seen.add(schema);
      for (const property of schema.properties?.values() ?? []) visit(property);
      visit(schema.items);
      visit(schema.additionalProperties);
    };
    for (const kind of kinds) {
      const schema = schemaOf(kind);
      expect(schema, kind.kind).toBeDefined();
      visit(schema);
      for (const sub of kind.subresources) expect(schemaOf(sub), sub.kind).toBeDefined();
    }
    expect(seen.size).toBeGreaterThan(1000);
  });
});
