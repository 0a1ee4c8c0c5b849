import type { Lifecycle } from '@oarlock/kernel/plugin';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Health, Role } from './role.ts';

export interface RoleFixture {
  /** Created, not started. */
  readonly role: Role & Lifecycle;
  /** Lets pass whatever the role has to wait for until it is ready: time on a fake clock, informers. */
  settle?(): Promise<void>;
  /** Makes `start` fail half way, or `ready` reject: a port that is taken, an API that refuses. Left out: the role takes nothing that can fail. */
  readonly breakStart?: () => void;
  /** Counts what a running role holds: sockets, timers, watches, handlers. Equal before and after means that `stop` released all of it. */
  held?(): Readonly<Record<string, number>>;
  dispose?(): Promise<void>;
}

const promptly = 2_000;
const patience = 10_000; // milliseconds of real time until a promise that never settles is a failure

/** What every role promises. Each test opens a fixture of its own. */
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
      expect(failure, 'a rejection that nobody handled').toBeUndefined();
    });

    const start = async (signal = new AbortController().signal) => {
      await fixture.role.start?.(signal);
      await fixture.settle?.();
    };
    const ready = async (signal = AbortSignal.timeout(patience)) => {
      const waiting = fixture.role.ready?.(signal);
      await fixture.settle?.();
      await waiting;
    };
    const stop = async () => {
      const stopping = fixture.role.stop?.();
      await fixture.settle?.();
      await stopping;
    };
    const healthOf = async (): Promise<Health> => {
      const health = await fixture.role.health();
      if (!health.healthy) expect(health.because, 'why it is not healthy').toMatch(/\w/);
      return health;
    };

    it('has a name that does not change', async () => {
      const { name: before } = fixture.role;
      expect(before).toMatch(/^[a-z][a-z0-9-]*$/);
      await start();
      expect(fixture.role.name).toBe(before);
      await stop();
    });

    it('answers for its health before, while and after it runs, and changes nothing by it', async () => {
      const before = fixture.held?.();
      for (let asked = 0; asked < 20; asked++) await healthOf();
      expect(fixture.held?.()).toEqual(before);
      await start();
      await ready();
      expect(await healthOf()).toEqual({ healthy: true });
      const running = fixture.held?.();
      await Promise.all(Array.from({ length: 20 }, healthOf));
      expect(fixture.held?.()).toEqual(running);
      await stop();
      await healthOf();
    });

    it('becomes ready, for everybody who waits, and stays so', async () => {
      await start();
      await Promise.all([ready(), ready()]);
      await ready();
      await stop();
    });

    it('releases everything when it stops', async () => {
      const before = fixture.held?.();
      await start();
      await ready();
      await stop();
      expect(fixture.held?.()).toEqual(before);
    });

    it('stops at once after start, twice, and when it never started', async () => {
      await stop();
      await fixture.role.start?.(new AbortController().signal);
      await stop();
      await stop();
    });

    it('gives up a start that nobody wants any more', async () => {
      const before = fixture.held?.();
      const abort = new AbortController();
      abort.abort(new Error('not wanted any more'));
      await start(abort.signal).catch(() => 'it may refuse');
      await stop();
      expect(fixture.held?.()).toEqual(before);
    });

    it('stops waiting to be ready when the signal says so', async () => {
      const abort = new AbortController();
      const waiting = fixture.role.ready?.(abort.signal);
      abort.abort(new Error('enough'));
      // a role that is ready as it stands may have said so already
      const outcome = waiting?.then(
        () => 'ready',
        (error: unknown) => (error instanceof Error ? 'refused' : `refused without an error: ${String(error)}`),
      );
      const limit = new Promise<string>((resolve) => {
        setTimeout(() => resolve('still waiting'), promptly).unref();
      });
      expect(['ready', 'refused', undefined]).toContain(await Promise.race([outcome, limit]));
      await stop();
    });

    it('undoes half a start', async (context) => {
      if (fixture.breakStart === undefined) context.skip('nothing of its start can fail');
      const before = fixture.held?.();
      fixture.breakStart?.();
      await expect(
        (async () => {
          await start();
          await ready();
        })(),
      ).rejects.toThrow();
      await stop();
      expect(fixture.held?.()).toEqual(before);
    });
  });
}
