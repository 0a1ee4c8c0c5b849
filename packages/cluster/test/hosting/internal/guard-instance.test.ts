import { PluginHealth } from '@oarlock/kernel/plugin-health';
import type { Slot } from '@oarlock/kernel/plugin';
import { silentLogger } from '@oarlock/primitives/logger';
import { Cloud } from '@oarlock/spi/cloud';
import { Controllers, type Controller } from '@oarlock/spi/controller';
import { Dns } from '@oarlock/spi/dns';
import { Network } from '@oarlock/spi/network';
import { Paths } from '@oarlock/spi/paths';
import { Policy } from '@oarlock/spi/policy';
import { Proxy } from '@oarlock/spi/proxy';
import { Runtime } from '@oarlock/spi/runtime';
import { Scheduling, success, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { Storage } from '@oarlock/spi/storage';
import { Volumes } from '@oarlock/spi/volume';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import { callLimitsOf } from '../../../src/hosting/internal/call-limits.ts';
import { guardInstance } from '../../../src/hosting/internal/guard-instance.ts';
import { GuardedCalls } from '../../../src/hosting/internal/guarded-calls.ts';

function guard(instance: object, slot: Slot<unknown>) {
  const clock = new FakeClock();
  const stop = new AbortController();
  const health = new PluginHealth({ name: 'mine', slot: slot.id, clock, log: silentLogger, stopping: stop.signal });
  const context = { name: 'mine', log: silentLogger };
  const guarded = guardInstance(instance, slot, { context, calls: new GuardedCalls(health, clock), limits: callLimitsOf(slot) });
  return { clock, stop, health, guarded: guarded as Record<string, (...args: unknown[]) => Promise<unknown>> };
}
const hang = () => new Promise<never>(() => {});

describe('a call that hangs', () => {
  it.each([
    ['storage', Storage, 'commit', 60_000],
    ['runtime', Runtime, 'runPodSandbox', 240_000],
    ['network', Network, 'add', 220_000],
    ['volume', Volumes, 'mount', 120_000],
    ['policy', Policy, 'protect', 30_000],
    ['proxy', Proxy, 'apply', 30_000],
    ['dns', Dns, 'apply', 30_000],
    ['network', Network, 'adopt', 220_000],
    ['scheduling', Scheduling, 'reserve', 10_000],
    ['scheduling', Scheduling, 'podGroupPostFilter', 30_000],
    ['paths', Paths, 'handle', 60_000],
    ['controller', Controllers, 'reconcile', 120_000],
  ] as const)('of a %s plugin fails at the deadline of its method', async (_name, slot, method, ms) => {
    const { guarded, clock, health } = guard({ [method]: hang }, slot as Slot<unknown>);
    const call = guarded[method]?.('', { signal: new AbortController().signal });
    const failed = expect(call).rejects.toThrow(`plugin "mine", ${method}: it did not answer within ${ms} ms`);
    await clock.advance(ms);
    await failed;
    expect(health.view()).toMatchObject({ healthy: false, faults: { deadline: 1 } });
  });

  it('of a part of a cloud plugin fails at its deadline', async () => {
    const { guarded, clock } = guard({ name: 'mine', loadBalancers: { ensure: hang } }, Cloud);
    const { ensure } = guarded['loadBalancers'] as unknown as { ensure(): Promise<unknown> };
    const failed = expect(ensure()).rejects.toThrow('ensure: it did not answer within 600000 ms');
    await clock.advance(600_000);
    await failed;
  });

  it.each([
    ['stopContainer', ['id', 30], 150_000],
    ['execSync', ['id', ['true'], 5], 125_000],
  ] as const)('of %s of a runtime fails two minutes after the time that the caller allows', async (method, args, ms) => {
    const { guarded, clock } = guard({ [method]: hang }, Runtime);
    const failed = expect(guarded[method]?.(...args)).rejects.toThrow(`${method}: it did not answer within ${ms} ms`);
    await clock.advance(ms);
    await failed;
  });

  it('of the authenticator of a path fails at its deadline', async () => {
    const { guarded, clock } = guard({ path: '/mine', authenticator: { authenticate: hang } }, Paths);
    const { authenticate } = guarded['authenticator'] as unknown as { authenticate(): Promise<unknown> };
    const failed = expect(authenticate()).rejects.toThrow('authenticate: it did not answer within 10000 ms');
    await clock.advance(10_000);
    await failed;
  });

  it('is abandoned two seconds after the cluster begins to stop', async () => {
    const { guarded, clock, stop } = guard({ reconcile: hang }, Controllers);
    const failed = expect(guarded['reconcile']?.('', { signal: new AbortController().signal })).rejects.toThrow('the cluster stops');
    stop.abort();
    await clock.advance(2_000);
    await failed;
  });

  it('of a controller has its signal aborted', async () => {
    let aborted = false;
    const reconcile: Controller['reconcile'] = (_key, { signal }) => {
      signal.addEventListener('abort', () => {
        aborted = true;
      });
      return hang();
    };
    const { guarded, clock } = guard({ reconcile }, Controllers);
    const failed = expect(guarded['reconcile']?.('a/b', { signal: new AbortController().signal })).rejects.toThrow('did not answer');
    await clock.advance(120_000);
    await failed;
    expect(aborted).toBe(true);
  });
});

describe('a guarded instance', () => {
  it('keeps private fields, getters and inherited methods', async () => {
    class Base {
      readonly #value = 7;
      get traits() {
        return { value: this.#value };
      }
      async add() {
        return this.#value;
      }
    }
    class Driver extends Base {}
    const { guarded } = guard(new Driver(), Network);
    expect(guarded['traits']).toEqual({ value: 7 });
    expect(await guarded['add']?.()).toBe(7);
  });

  it('rejects a permit that returns a promise, and gates a pod whose preEnqueue throws', () => {
    const plugin = {
      name: 'Mine',
      permit: async () => success,
      preEnqueue: () => {
        throw new Error('broken');
      },
    } as unknown as SchedulingPlugin;
    const guarded = guard(plugin, Scheduling).guarded as unknown as Required<SchedulingPlugin>;
    expect(() => guarded.permit({} as never, {} as never, 'node')).toThrow('permit returned a promise');
    expect(guarded.preEnqueue({} as never)).toEqual({ code: 'unschedulable', reasons: ['broken'] });
  });

  it('is suspended after many late errors, except a storage', async () => {
    const network = guard({ add: async () => 1 }, Network);
    const storage = guard({ commit: async () => 1 }, Storage);
    for (const { health } of [network, storage]) for (let count = 0; count < 11; count++) health.report('late', new Error('late'));
    expect(() => network.guarded['add']?.()).toThrow('it is suspended because of unhandled errors');
    expect(await storage.guarded['commit']?.()).toBe(1);
  });
});
