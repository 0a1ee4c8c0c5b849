import { expect, it } from 'vitest';
import { until } from '../../harness/until.ts';
import type { NodeWorkbench } from '../node-workbench.ts';

interface EventItem {
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly reason?: string;
  readonly message?: string;
  readonly note?: string;
  readonly series?: { readonly count: number };
}

/** Events of both API groups. */
export function eventBehaviours(bench: NodeWorkbench): void {
  const lists = { core: '/api/v1/namespaces/default/events', events: '/apis/events.k8s.io/v1/namespaces/default/events' } as const;
  /** Creates an event with a unique name: other tests create events concurrently. */
  const named = (name: string, group: keyof typeof lists, test: string) => {
    const about = { kind: 'Pod', namespace: 'default', name: 'nobody' };
    const metadata = { name, namespace: 'default', labels: { 'testevent-constant': test } };
    return group === 'core'
      ? { metadata, involvedObject: about, type: 'Normal', reason: 'Test', message: 'This is a test event', source: { component: 'e2e' } }
      : {
          metadata,
          regarding: about,
          type: 'Normal',
          reason: 'Test',
          note: 'This is a test event',
          action: 'Do',
          eventTime: '2026-01-01T00:00:00.000000Z',
          reportingController: 'e2e',
          reportingInstance: 'e2e',
        };
  };
  const merge = { 'content-type': 'application/merge-patch+json' };

  for (const [group, title] of [
    ['core', 'Events should manage the lifecycle of an event'],
    ['events', 'Events API should ensure that an event can be fetched, patched, deleted, and listed'],
  ] as const)
    it(title, async () => {
      const { api } = bench;
      const name = bench.name('event');
      const at = `${lists[group]}/${name}`;
      await api.json('POST', lists[group], { body: named(name, group, name) });
      const textField = group === 'core' ? 'message' : 'note';
      expect((await api.get<EventItem>(at))[textField]).toBe('This is a test event');
      expect(
        (await api.get<{ items: EventItem[] }>('/api/v1/events?labelSelector=testevent-constant')).items.map(
          ({ metadata }) => metadata.name,
        ),
      ).toContain(name);
      const one = `fieldSelector=reason%3DTest%2Cmetadata.name%3D${name}`;
      expect((await api.get<{ items: EventItem[] }>(`${lists[group]}?${one}`)).items).toHaveLength(1);
      const series = (count: number) => ({ count, lastObservedTime: '2026-01-01T00:00:01.000000Z' });
      const change = group === 'core' ? { message: 'patched' } : { series: series(2) };
      await api.json('PATCH', at, { body: change, headers: merge });
      const patched = await api.get<EventItem>(at);
      expect(patched).toMatchObject(change);
      expect((await api.json<EventItem>('PUT', at, { body: { ...patched, series: series(100) } })).series?.count).toBe(100);
      // both groups return the same object
      expect((await api.get<EventItem>(at.replace(lists[group], lists[group === 'core' ? 'events' : 'core']))).metadata.name).toBe(name);
      await api.json('DELETE', at);
      await until('it is gone', async () => (await api.call('GET', at)).status === 404);
    });
  for (const [group, title] of [
    ['core', 'Events should delete a collection of events'],
    ['events', 'Events API should delete a collection of events'],
  ] as const)
    it(title, async () => {
      const { api } = bench;
      const test = bench.name('collected');
      for (const word of ['x', 'y', 'z']) await api.json('POST', lists[group], { body: named(`${test}-${word}`, group, test) });
      const some = `${lists[group]}?labelSelector=testevent-constant%3D${test}`;
      expect((await api.get<{ items: EventItem[] }>(some)).items).toHaveLength(3);
      await api.json('DELETE', some);
      await until('they are gone', async () => (await api.get<{ items: EventItem[] }>(some)).items.length === 0);
    });
}
