import type { KubeObject } from '@oarlock/api/object';
import { nodes } from '@oarlock/api/resources';
import type { Resource } from '@oarlock/api/resource';
import type { Plugin } from '@oarlock/kernel/plugin';
import type { FakeClock } from '@oarlock/testing/fake-clock';
import type { MemoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import { runControllers, type RunningControllers } from './running-controllers.ts';

/** One expected event, as upstream records it: component, object, type, reason and message. */
export interface EventRow {
  readonly controller: Plugin;
  readonly scenario: string;
  readonly seed: (api: MemoryApi, clock: FakeClock) => void;
  /** Acts after the controller has started. */
  readonly next?: (life: RunningControllers) => Promise<unknown> | void;
  /** Milliseconds until the event is recorded. */
  readonly after?: number;
  readonly expected: readonly [component: string, about: string, type: 'Normal' | 'Warning', reason: string, message: string | RegExp];
}

export const meta = { namespace: 'd', name: 'x', uid: '6a3b0f8e-8a0c-4a53-9d4e-8d6ff3d8f001' };
/** Returns an object with default metadata; `more` overrides its fields. */
export const newObject = <T extends KubeObject>(resource: Resource<T>, spec: unknown, more: Readonly<Record<string, unknown>> = {}): T =>
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
  newObject(nodes, spec, { metadata: { name: 'n', uid: 'uid-of-n' }, status: { conditions, allocatable: { pods: '10' } } });

/** Adds one test for each row. */
export function testEventRows(rows: readonly EventRow[]): void {
  describe('events of controllers', () => {
    it.each(rows.map((row) => [row.expected[0], row.expected[3], row.scenario, row] as const))(
      '%s %s %s',
      async (_component, _reason, _scenario, { controller, seed, next, after, expected }) => {
        const life = await runControllers([controller], { defaults: false, seed });
        const { clock, events: recordedEvents } = life;
        await next?.(life);
        await clock.settle();
        if (after !== undefined) await clock.advance(after);
        const [component, about, type, reason, message] = expected;
        const found = recordedEvents.map((each) => ({ ...each, about: `${each.about.kind} ${each.about.metadata?.name}` }));
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
