import type { Plugin } from '@oarlock/kernel/plugin';
import {
  errorStatus,
  Scheduling,
  success,
  unschedulable,
  unschedulableAndUnresolvable,
  type SchedulingPlugin,
} from '@oarlock/spi/scheduling';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { node, pod, testScheduler } from '../support/test-scheduler.ts';

let w: ReturnType<typeof testScheduler>;
afterEach(() => w.stop());

const plugin = (name: string, points: Partial<SchedulingPlugin>) =>
  Scheduling.plugin({ id: name.toLowerCase(), config: z.strictObject({}), create: (): SchedulingPlugin => ({ name, ...points }) });
async function submit(...plugins: Plugin[]): Promise<{ reason?: string; message?: string }> {
  w = testScheduler({}, plugins);
  w.seedNodes(node('a'), node('b'));
  await w.start();
  await w.submit(pod('p'));
  const { reason, message } = w.podOf('p')?.status?.conditions?.find(({ type }) => type === 'PodScheduled') ?? {};
  return { ...(reason !== undefined && { reason }), ...(message !== undefined && { message }) };
}
const only =
  (...names: string[]) =>
  () =>
    ({ code: 'success', nodes: new Set(names) }) as const;
const noHelp = 'no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.';

describe('preFilter', () => {
  it('reports the plugins that leave no common node', async () => {
    const { message } = await submit(plugin('One', { preFilter: only('a') }), plugin('Other', { preFilter: only('b') }));
    expect(message).toBe(`0/2 nodes are available: node(s) didn't satisfy plugin(s) [One Other] simultaneously. ${noHelp}`);
  });

  it('reports a plugin that allows no node', async () => {
    const { message } = await submit(plugin('One', { preFilter: only() }));
    expect(message).toBe(`0/2 nodes are available: node(s) didn't satisfy plugin One. ${noHelp}`);
  });

  it('runs the plugins after one that preemption may satisfy, and no plugin after another rejection', async () => {
    const calls: string[] = [];
    const rejecting = (name: string, status: typeof unschedulable) =>
      plugin(name, {
        preFilter() {
          calls.push(name);
          return status(name);
        },
      });
    const { message } = await submit(
      rejecting('One', unschedulable),
      rejecting('Two', unschedulableAndUnresolvable),
      rejecting('Three', unschedulable),
    );
    expect(calls).toEqual(['One', 'Two']);
    expect(message).toBe(`0/2 nodes are available: Two. ${noHelp}`);
  });

  it('names the plugin that fails with an error', async () => {
    expect(await submit(plugin('One', { preFilter: () => errorStatus('boom') }))).toEqual({
      reason: 'SchedulerError',
      message: 'running PreFilter plugin "One": boom',
    });
  });
});

describe('filter', () => {
  it('ends the attempt when a plugin fails with an error', async () => {
    expect(await submit(plugin('One', { filter: (_state, _pod, { name }) => (name === 'b' ? errorStatus('boom') : success) }))).toEqual({
      reason: 'SchedulerError',
      message: 'running "One" filter plugin: boom',
    });
    expect(w.placeOf('p')).toBeUndefined();
    // the error does not end the explanation of a pod
    expect(w.scheduler.explain([pod('q')])[0]?.message).toBe('running "One" filter plugin: boom');
  });

  it('reports no reasons for plugins that give none', async () => {
    const { message } = await submit(plugin('One', { filter: () => unschedulable() }));
    expect(message).toMatch(/^0\/2 nodes are available: no new claims to deallocate, /);
  });
});

describe('postFilter', () => {
  it.each([
    ['unresolvable', unschedulableAndUnresolvable('never')],
    ['error', errorStatus('never')],
  ])('ends with the reasons of the first plugin whose status is %s', async (_code, status) => {
    const { message } = await submit(
      plugin('Reject', { filter: () => unschedulableAndUnresolvable('no') }),
      plugin('One', { postFilter: () => unschedulable('one') }),
      plugin('Two', { postFilter: () => status }),
      plugin('Three', { postFilter: () => unschedulable('three') }),
    );
    expect(message).toBe('0/2 nodes are available: 2 no. never');
  });
});

describe('score', () => {
  it('fails the attempt if a score is out of range after normalizing', async () => {
    expect(await submit(plugin('Big', { score: () => 101 }))).toEqual({
      reason: 'SchedulerError',
      message:
        'applying score defaultWeights on Score plugins: plugin "Big" returns an invalid score 101, it should in the range of [0, 100] after normalizing',
    });
    expect((await submit(plugin('NotANumber', { score: () => Number.NaN }))).message).toContain(
      'plugin "NotANumber" returns an invalid score NaN',
    );
  });

  it('accepts scores that normalizing brings into the range', async () => {
    const normalizeScore: SchedulingPlugin['normalizeScore'] = (_state, _pod, _nodes, scores) => void scores.fill(100);
    await submit(plugin('Big', { score: () => 1000, normalizeScore }));
    expect(w.podOf('p')?.spec?.nodeName).toBeDefined();
  });

  it('fails the attempt if preScore fails', async () => {
    expect((await submit(plugin('Early', { preScore: () => errorStatus('no state'), score: () => 1 }))).message).toBe(
      'running PreScore plugin "Early": no state',
    );
  });
});
