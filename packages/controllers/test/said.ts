import type { KubeObject } from '@oarlock/api/object';
import { nodes } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import type { Plugin } from '@oarlock/kernel/plugin';
import type { FakeClock } from '@oarlock/testing/fake-clock';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { live, type Life } from './life.ts';

/** Upstream's: who says it, of what, and how. */
export interface Row {
  readonly loop: Plugin;
  readonly does: string;
  readonly seed: (api: MemoryApi, clock: FakeClock) => void;
  /** What happens once the loop runs. */
  readonly next?: (life: Life) => Promise<unknown> | void;
  /** Milliseconds until it is said. */
  readonly after?: number;
  readonly says: readonly [component: string, about: string, type: 'Normal' | 'Warning', reason: string, message: string | RegExp];
}

export const meta = { namespace: 'd', name: 'x', uid: '6a3b0f8e-8a0c-4a53-9d4e-8d6ff3d8f001' };
/** An object of this name, unless `more` says otherwise. */
export const of = <T extends KubeObject>(resource: Resource<T>, spec: unknown, more: Readonly<Record<string, unknown>> = {}): T =>
  ({
    apiVersion: resource.group === '' ? resource.version : `${resource.group}/${resource.version}`,
    kind: resource.kind,
    metadata: meta,
    spec,
    ...more,
  }) as unknown as T;
export const container = { name: 'c', image: 'a' };
export const labels = { app: 'x' };
export const template = { metadata: { labels }, spec: { containers: [container], restartPolicy: 'Always' } };
export const once = { metadata: { labels }, spec: { containers: [container], restartPolicy: 'Never' } };
export const selector = { matchLabels: labels };
export const node = (conditions: readonly unknown[] = [], spec: unknown = {}) =>
  of(nodes, spec, { metadata: { name: 'n', uid: 'uid-of-n' }, status: { conditions, allocatable: { pods: '10' } } });

/** One test for each row. */
export function testRows(rows: readonly Row[]): void {
  describe('what loops say', () => {
    it.each(rows.map((row) => [row.says[0], row.says[3], row.does, row] as const))(
      '%s %s %s',
      async (_component, _reason, _does, { loop, seed, next, after, says }) => {
        const life = await live([loop], { defaults: false, seed });
        const { clock, told } = life;
        await next?.(life);
        await clock.settle();
        if (after !== undefined) await clock.advance(after);
        const [component, about, type, reason, message] = says;
        const found = told.map((each) => ({ ...each, about: `${each.about.kind} ${each.about.metadata?.name}` }));
        expect(found).toContainEqual({
          component,
          about,
          type,
          reason,
          message: typeof message === 'string' ? message : expect.stringMatching(message),
        });
      },
    );
  });
}
