import { configMaps } from '@oarlock/api/resources';
import { Events, Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { Keys } from '@oarlock/spi/cluster';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { inspectPlugin, unsupportedNeeds } from '../../src/export/required-rules.ts';

const controller = (rules: string) =>
  Controllers.plugin({
    id: 'controller-a',
    declares: { rules, reads: 'deployments.apps' },
    config: z.strictObject({}),
    needs: { informers: Informers, events: Events },
    create: ({ informers }) => ({
      name: 'a',
      watches: [watch(informers.forResource(configMaps), () => [])],
      reconcile: () => Promise.resolve(),
    }),
  });

it('returns reads of informers and declarations, declared rules, and events', () => {
  const verbs = ['get', 'list', 'watch'];
  expect(inspectPlugin(controller('create | core | secrets; patch | apps | deployments'), {}, ['pods']).rules).toEqual([
    { apiGroups: [''], resources: ['configmaps'], verbs },
    { apiGroups: ['apps'], resources: ['deployments'], verbs },
    { apiGroups: [''], resources: ['pods'], verbs },
    { apiGroups: [''], resources: ['secrets'], verbs: ['create'] },
    { apiGroups: ['apps'], resources: ['deployments'], verbs: ['patch'] },
    { apiGroups: ['', 'events.k8s.io'], resources: ['events'], verbs: ['create', 'patch', 'update'] },
  ]);
});

it('rejects a malformed rule and names it', () => {
  expect(() => inspectPlugin(controller('create secrets'), {}, [])).toThrow(
    'controller-a declares the rule "create secrets"; a rule is `verbs | groups | resources | names`',
  );
});

it('reports needs that only a composition fills', () => {
  const plugin = Controllers.plugin({
    id: 'controller-b',
    config: z.strictObject({}),
    needs: { keys: Keys, informers: Informers },
    create: () => ({ name: 'b', watches: [], reconcile: () => Promise.resolve() }),
  });
  expect(unsupportedNeeds(plugin)).toEqual(['keys/v1']);
});
