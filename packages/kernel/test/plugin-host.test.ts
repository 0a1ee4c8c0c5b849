import { expect, it, describe } from 'vitest';
import { z } from 'zod';
import { systemClock, type Clock } from '@oarlock/primitives/clock';
import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import { WiringError } from '../src/errors.ts';
import { available, unavailable, type PluginContext } from '../src/plugin.ts';
import { PluginHost } from '../src/plugin-host.ts';
import { optional, slot } from '../src/slot.ts';

const noop = z.strictObject({});
const A = slot.one<{ readonly a: string }>('a/v1');
const B = slot.one<object>('b/v1');
const Chain = slot.chain<{ readonly n: number }>('chain/v1');
const Named = slot.named<{ readonly n: number }>('named/v1');

describe('start and stop order', () => {
  it('starts a plugin after what it needs and stops it before', async () => {
    const trace: string[] = [];
    const life = (n: string) => ({
      a: n,
      start: async () => {
        trace.push(`+${n}`);
      },
      stop: async () => {
        trace.push(`-${n}`);
      },
    });
    const a = A.plugin({ id: 'a', config: noop, create: () => life('a') });
    const b = B.plugin({
      id: 'b',
      config: noop,
      needs: { a: A },
      create: ({ a: dependency }) => {
        expect(dependency.a).toBe('a');
        return life('b');
      },
    });
    const host = new PluginHost().add({ plugin: b }).add({ plugin: a });
    await host.start();
    await host.stop();
    expect(trace).toEqual(['+a', '+b', '-b', '-a']);
  });

  it('warns about a plugin that takes long to stop, and waits for it', async () => {
    const alarms = new Map<number, () => void>();
    const clock: Clock = {
      ...systemClock,
      after: (ms, fire) => {
        alarms.set(ms, fire);
        return { cancel: () => void alarms.delete(ms) };
      },
    };
    const warnings: unknown[] = [];
    const log: Logger = { ...silentLogger, warn: (...parts: unknown[]) => void warnings.push(parts) };
    let finish = () => {};
    const stopping = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const slow = A.plugin({ id: 'slow', config: noop, create: () => ({ a: 'a', stop: () => stopping }) });
    const host = new PluginHost({ clock, log }).add({ plugin: slow });
    await host.start();
    const stopped = host.stop();
    alarms.get(10_000)?.();
    expect(warnings).toEqual([[{ plugin: 'slow' }, 'the plugin is still stopping']]);
    finish();
    await stopped;
    expect([...alarms.keys()]).toEqual([]);
  });

  it('creates a plugin once if several others need it', async () => {
    let instances = 0;
    const a = A.plugin({
      id: 'a',
      config: noop,
      create: () => {
        instances += 1;
        return { a: 'a' };
      },
    });
    const user = (id: string, n: number) => Chain.plugin({ id, config: noop, needs: { a: A }, create: () => ({ n }) });
    const host = new PluginHost()
      .add({ plugin: user('x', 1) })
      .add({ plugin: user('y', 2) })
      .add({ plugin: a });
    await host.start();
    expect(instances).toBe(1);
    expect(host.get(Chain).map(({ n }) => n)).toEqual([1, 2]);
  });

  it('stops a plugin whose start failed half way, and every plugin before it', async () => {
    const trace: string[] = [];
    const a = A.plugin({
      id: 'a',
      config: noop,
      create: () => ({
        a: 'a',
        stop: async () => {
          trace.push('-a');
        },
      }),
    });
    const b = B.plugin({
      id: 'b',
      config: noop,
      needs: { a: A },
      create: () => ({
        start: async () => {
          trace.push('+b');
          throw new Error('no socket');
        },
        stop: async () => {
          trace.push('-b');
        },
      }),
    });
    const host = new PluginHost({ onStopping: () => trace.push('stopping') }).add({ plugin: a }).add({ plugin: b });
    await expect(host.start()).rejects.toMatchObject({ code: 'StartFailed', faults: [{ message: 'b did not start: no socket' }] });
    expect(trace).toEqual(['+b', 'stopping', '-b', '-a']);
  });

  it('stops the other plugins if one fails to stop, and reports the failure', async () => {
    const trace: string[] = [];
    const a = A.plugin({
      id: 'a',
      config: noop,
      create: () => ({
        a: 'a',
        stop: async () => {
          trace.push('-a');
        },
      }),
    });
    const b = B.plugin({
      id: 'b',
      config: noop,
      needs: { a: A },
      create: () => ({
        stop: async () => {
          throw new Error('stuck');
        },
      }),
    });
    const host = new PluginHost().add({ plugin: a }).add({ plugin: b });
    await host.start();
    await expect(host.stop()).rejects.toMatchObject({ code: 'StopFailed', faults: [{ message: 'b did not stop cleanly: stuck' }] });
    expect(trace).toEqual(['-a']);
  });

  it("aborts a plugin's signal before it stops the plugin", async () => {
    const seen: boolean[] = [];
    const a = A.plugin({
      id: 'a',
      config: noop,
      create: (_, { signal }) => ({
        a: 'a',
        stop: async () => {
          seen.push(signal.aborted);
        },
      }),
    });
    const host = new PluginHost().add({ plugin: a });
    await host.start();
    await host.stop();
    expect(seen).toEqual([true]);
  });
});

describe('fault reporting', () => {
  it('reports all faults together and starts nothing', async () => {
    let created = false;
    const a = A.plugin({
      id: 'a',
      config: noop,
      create: () => {
        created = true;
        return { a: 'a' };
      },
    });
    const strict = B.plugin({ id: 'strict', config: z.strictObject({ size: z.number() }), create: () => ({}) });
    const lonely = Chain.plugin({ id: 'lonely', config: noop, needs: { c: slot.one<object>('c/v1') }, create: () => ({ n: 1 }) });
    const host = new PluginHost()
      .add({ plugin: a })
      .add({ plugin: a, name: 'second' })
      .add({ plugin: strict, config: { size: 'big', color: 1 } })
      .add({ plugin: lonely });
    const error = await host.start().then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(WiringError);
    expect((error as WiringError).faults.map(({ code }) => code)).toEqual(['ConfigInvalid', 'ConfigInvalid', 'SlotTaken', 'SlotEmpty']);
    expect((error as WiringError).message).toContain('strict: Invalid input: expected number, received string, got "big"');
    expect((error as WiringError).message).toContain('strict: unknown key color');
    expect(created).toBe(false);
  });

  it('reports a dependency cycle as a path', () => {
    const a = A.plugin({ id: 'a', config: noop, needs: { b: B }, create: () => ({ a: 'a' }) });
    const b = B.plugin({ id: 'b', config: noop, needs: { a: A }, create: () => ({}) });
    expect(new PluginHost().add({ plugin: a }).add({ plugin: b }).check()).toMatchObject([
      { code: 'DependencyCycle', message: 'a -> b -> a' },
    ]);
  });

  it('reports another version of a slot as VersionMismatch, not as an empty slot', () => {
    const newer = slot.one<object>('a/v2');
    const a = A.plugin({ id: 'a', config: noop, create: () => ({ a: 'a' }) });
    const b = B.plugin({ id: 'b', config: noop, needs: { a: newer }, create: () => ({}) });
    expect(new PluginHost().add({ plugin: a }).add({ plugin: b }).check()).toMatchObject([
      { code: 'VersionMismatch', message: 'b needs a/v2, but this cluster has a/v1' },
    ]);
  });

  it('rejects the same name twice in one slot', () => {
    const one = Chain.plugin({ id: 'one', config: noop, create: () => ({ n: 1 }) });
    expect(new PluginHost().add({ plugin: one }).add({ plugin: one }).check()).toMatchObject([{ code: 'NameTaken' }]);
    expect(new PluginHost().add({ plugin: one }).add({ plugin: one, name: 'two' }).check()).toEqual([]);
  });

  it('reports an unavailable plugin as Unavailable', async () => {
    const a = A.plugin({
      id: 'a',
      config: noop,
      probe: async () => unavailable('there is no socket at /run/x.sock'),
      create: () => ({ a: 'a' }),
    });
    const host = new PluginHost().add({ plugin: a });
    expect(host.check()).toEqual([]);
    await expect(host.start()).rejects.toMatchObject({
      code: 'Unavailable',
      faults: [{ message: 'a is not available on this machine: there is no socket at /run/x.sock' }],
    });
  });

  it('reports the name of the plugin whose create throws', async () => {
    const a = A.plugin({
      id: 'a',
      config: noop,
      probe: async () => available,
      create: () => {
        throw new Error('bad wiring');
      },
    });
    await expect(new PluginHost().add({ plugin: a }).start()).rejects.toMatchObject({
      code: 'CreateFailed',
      faults: [{ message: 'a could not be created: bad wiring' }],
    });
  });

  it('reports the position of an invalid config value in the file', () => {
    const strict = B.plugin({ id: 'strict', config: z.strictObject({ size: z.number() }), create: () => ({}) });
    const at = { file: 'cluster.yaml', line: 7, column: 9 };
    const [fault] = new PluginHost()
      .add({
        plugin: strict,
        config: { size: 'big' },
        configPath: 'spec.b.config',
        locateConfig: (path) => (path.join('.') === 'size' ? at : undefined),
      })
      .check();
    expect(fault).toMatchObject({ at, path: 'spec.b.config.size' });
  });
});

describe('dependencies and context of a plugin', () => {
  it('are lists in order, maps by name, and undefined for an optional slot that no plugin fills', async () => {
    const seen: unknown[] = [];
    const one = (id: string, n: number) => Named.plugin({ id, config: noop, create: () => ({ n }) });
    const user = B.plugin({
      id: 'user',
      config: noop,
      needs: { a: optional(A), all: Chain, by: Named },
      create: ({ a, all, by }) => {
        seen.push(a, all.length, [...by.keys()], by.get('y')?.n);
        return {};
      },
    });
    const host = new PluginHost()
      .add({ plugin: user })
      .add({ plugin: one('x', 1) })
      .add({ plugin: one('y', 2) });
    await host.start();
    expect(seen).toEqual([undefined, 0, ['x', 'y'], 2]);
  });

  it('include a logger, a clock, a data directory and a metrics registry of its own', async () => {
    const contexts: PluginContext[] = [];
    const one = (id: string) =>
      Chain.plugin({
        id,
        config: noop,
        create: (_, context) => {
          contexts.push(context);
          return { n: 1 };
        },
      });
    const host = new PluginHost({ dataDir: '/data' }).add({ plugin: one('x') }).add({ plugin: one('y') });
    await host.start();
    expect(contexts.map(({ name, dataDir }) => [name, dataDir])).toEqual([
      ['x', '/data/x'],
      ['y', '/data/y'],
    ]);
    expect(contexts[0]?.metrics).not.toBe(contexts[1]?.metrics);
  });

  it('are checked by the compiler', () => {
    // @ts-expect-error: slot a requires { a: string }
    A.plugin({ id: 'x', config: noop, create: () => ({ b: 1 }) });
    // @ts-expect-error: the config has no such key
    A.plugin({ id: 'x', config: noop, create: ({ config }) => ({ a: config.name }) });
    expect(A.plugin({ id: 'x', config: noop, create: () => ({ a: '' }) }).provides.id).toBe('a/v1');
  });
});
