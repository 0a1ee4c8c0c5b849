import { describe, expect, it } from 'vitest';
import { silentLogger } from '@oarlock/primitives/logger';
import { sleepWith, type Clock } from '@oarlock/primitives/clock';
import { failedPlugin, maxLateErrors, PluginHealth, runningPlugin, unhealthyForMs, type PluginHealthView } from '../src/plugin-health.ts';

/** A clock whose timers fire when the test advances it. */
class ManualClock implements Clock {
  #now = 0;
  readonly #timers = new Set<{ readonly at: number; readonly fire: () => void }>();
  now = () => this.#now;
  monotonic = () => this.#now;
  after(ms: number, fire: () => void) {
    const timer = { at: this.#now + ms, fire };
    this.#timers.add(timer);
    return { cancel: () => void this.#timers.delete(timer) };
  }
  sleep(ms: number, signal?: AbortSignal) {
    return sleepWith(this, ms, signal);
  }
  advance(ms: number): void {
    this.#now += ms;
    for (const timer of [...this.#timers]) if (timer.at <= this.#now && this.#timers.delete(timer)) timer.fire();
  }
}

function start(log = silentLogger) {
  const clock = new ManualClock();
  const changes: PluginHealthView[] = [];
  const health = new PluginHealth({
    name: 'admission-mine',
    slot: 'admission/v1',
    clock,
    log,
    stopping: new AbortController().signal,
    onChange: (view) => changes.push(view),
  });
  return { clock, changes, health };
}

describe('health of a plugin', () => {
  it('only counts errors of calls', () => {
    const { health, changes } = start();
    health.report('error', new Error('no'));
    expect(health.view()).toMatchObject({ healthy: true, faults: { error: 1 } });
    expect(changes).toEqual([]);
  });

  it('is bad until a minute has passed without a fault', () => {
    const { health, clock, changes } = start();
    health.report('deadline', new Error('too slow'));
    clock.advance(unhealthyForMs / 2);
    health.report('late', new Error('too late'));
    clock.advance(unhealthyForMs / 2);
    expect(health.view()).toMatchObject({ healthy: false, suspended: false, reason: 'too late' });
    clock.advance(unhealthyForMs);
    expect(health.view()).toMatchObject({ healthy: true, faults: { deadline: 1, late: 1 } });
    expect(changes.map(({ healthy }) => healthy)).toEqual([false, true]);
  });

  it('suspends a plugin with many late errors for a minute', () => {
    const { health, clock } = start();
    for (let count = 0; count < maxLateErrors; count++) health.report('late', new Error('again'));
    expect(health.isSuspended).toBe(false);
    health.report('late', new Error('again'));
    expect(health.view()).toMatchObject({
      suspended: true,
      reason: expect.stringMatching(/suspended for 60 s after 11 unhandled errors: again/) as string,
    });
    clock.advance(unhealthyForMs);
    expect(health.view()).toMatchObject({ healthy: true, suspended: false });
  });

  it('logs the first late errors, also if they follow at once, and later ones at intervals', () => {
    const logged: unknown[] = [];
    const { health, clock } = start({ ...silentLogger, error: ({ count }) => void logged.push(count) });
    for (let count = 0; count < maxLateErrors; count++) health.report('late', new Error('again'));
    expect(logged).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    for (let count = 0; count < 100; count++) health.report('late', new Error('again'));
    expect(logged.length).toBeLessThan(14);
    clock.advance(10_000);
    health.report('late', new Error('again'));
    expect(logged.at(-1)).toBe(111);
  });

  it('is good again when another version of the plugin runs', () => {
    const { health } = start();
    health.report('ended', new Error('gone'));
    health.reset();
    expect(health.view()).toMatchObject({ healthy: true });
  });
});

describe('attribution', () => {
  it('knows the plugin that started an asynchronous operation', async () => {
    const { health } = start();
    const later = health.run(async () => {
      await Promise.resolve();
      return runningPlugin();
    });
    expect(runningPlugin()).toBeUndefined();
    expect(await later).toBe(health);
  });

  it('knows the plugin whose call failed with an error', () => {
    const { health } = start();
    const error = new Error('mine');
    expect(failedPlugin(error)).toBeUndefined();
    health.report('error', error);
    expect(failedPlugin(error)).toBe(health);
  });
});
