import type { Lifecycle } from '@oarlock/kernel/plugin';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Health, Role } from '../role.ts';

/** Access to the role under test, provided by the package of the role. */
export interface RoleFixture {
  /** The role under test, created but not started. */
  readonly role: Role & Lifecycle;
  /** Makes the role ready, by completing what the role waits for: advances a fake clock, syncs informers. */
  settle?(): Promise<void>;
  /** Causes the next `start` or `waitUntilReady` to fail, for example by occupying the port that the role needs. Absent if neither can fail. */
  readonly breakStart?: () => void;
  /**
   * Counts the resources of a running role: sockets, timers, watches, handlers. Equal counts before and after mean that `stop` released everything.
   */
  countResources?(): Readonly<Record<string, number>>;
  dispose?(): Promise<void>;
}

const promptMs = 2_000;
const timeoutMs = 10_000; // milliseconds of real time until a pending promise counts as a failure

/** Declares the tests that every role must pass. Each test opens its own fixture. */
export function roleContract(name: string, open: () => Promise<RoleFixture> | RoleFixture): void {
  describe(`role/v1 contract: ${name}`, { timeout: 300_000 }, () => {
    let fixture: RoleFixture;
    let failure: unknown;
    const failed = (reason: unknown) => {
      failure = reason;
    };
    beforeEach(async () => {
      failure = undefined;
      fixture = await open();
      process.on('unhandledRejection', failed);
    });
    afterEach(async () => {
      await fixture.dispose?.();
      await new Promise<void>((resolve) => {
        setImmediate(resolve);
      });
      process.off('unhandledRejection', failed);
      expect(failure, 'an unhandled rejection').toBeUndefined();
    });

    const start = async (signal = new AbortController().signal) => {
      await fixture.role.start?.(signal);
      await fixture.settle?.();
    };
    const ready = async (signal = AbortSignal.timeout(timeoutMs)) => {
      const waiting = fixture.role.waitUntilReady?.(signal);
      await fixture.settle?.();
      await waiting;
    };
    const stop = async () => {
      const stopping = fixture.role.stop?.();
      await fixture.settle?.();
      await stopping;
    };
    const healthOf = async (): Promise<Health> => {
      const health = await fixture.role.checkHealth();
      if (!health.healthy) expect(health.reason, 'the reason for not being healthy').toMatch(/\w/);
      return health;
    };

    it('has a constant name', async () => {
      const { name: before } = fixture.role;
      expect(before).toMatch(/^[a-z][a-z0-9-]*$/);
      await start();
      expect(fixture.role.name).toBe(before);
      await stop();
    });

    it('reports health before, during and after its run, without side effects', async () => {
      const before = fixture.countResources?.();
      for (let call = 0; call < 20; call++) await healthOf();
      expect(fixture.countResources?.()).toEqual(before);
      await start();
      await ready();
      expect(await healthOf()).toEqual({ healthy: true });
      const running = fixture.countResources?.();
      await Promise.all(Array.from({ length: 20 }, healthOf));
      expect(fixture.countResources?.()).toEqual(running);
      await stop();
      await healthOf();
    });

    it('becomes ready for every waiter, and stays ready', async () => {
      await start();
      await Promise.all([ready(), ready()]);
      await ready();
      await stop();
    });

    it('releases everything when it stops', async () => {
      const before = fixture.countResources?.();
      await start();
      await ready();
      await stop();
      expect(fixture.countResources?.()).toEqual(before);
    });

    it('stops immediately after start, twice, and without a start', async () => {
      await stop();
      await fixture.role.start?.(new AbortController().signal);
      await stop();
      await stop();
    });

    it('aborts a canceled start', async () => {
      const before = fixture.countResources?.();
      const abort = new AbortController();
      abort.abort(new Error('canceled'));
      await start(abort.signal).catch(() => 'start may reject');
      await stop();
      expect(fixture.countResources?.()).toEqual(before);
    });

    it('stops waiting for readiness when the signal aborts', async () => {
      const abort = new AbortController();
      const waiting = fixture.role.waitUntilReady?.(abort.signal);
      abort.abort(new Error('canceled'));
      // a role without preconditions may be ready already
      const outcome = waiting?.then(
        () => 'ready',
        (error: unknown) => (error instanceof Error ? 'rejected' : `rejected without an error: ${String(error)}`),
      );
      const limit = new Promise<string>((resolve) => {
        setTimeout(() => resolve('still waiting'), promptMs).unref();
      });
      expect(['ready', 'rejected', undefined]).toContain(await Promise.race([outcome, limit]));
      await stop();
    });

    it('releases everything after a failed start', async (context) => {
      if (fixture.breakStart === undefined) context.skip('its start cannot fail');
      const before = fixture.countResources?.();
      fixture.breakStart?.();
      await expect(
        (async () => {
          await start();
          await ready();
        })(),
      ).rejects.toThrow();
      await stop();
      expect(fixture.countResources?.()).toEqual(before);
    });
  });
}
