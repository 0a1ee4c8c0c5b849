import { expect, it, describe } from 'vitest';
import { z } from 'zod';
import { WiringError } from '../src/errors.ts';
import { available, unavailable, type PluginContext } from '../src/plugin.ts';
import { PluginHost } from '../src/plugin-host.ts';
import { optional, slot } from '../src/slot.ts';

const noop = z.strictObject({});
const A = slot.one<{ readonly a: string }>('a/v1');
const B = slot.one<object>('b/v1');
const Chain = slot.chain<{ readonly n: number }>('chain/v1');
const Named = slot.named<{ readonly n: number }>('named/v1');

describe('order', () => {
  it('starts what is needed first, stops it last', async () => {
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
      create: ({ a: given }) => {
        expect(given.a).toBe('a');
        return life('b');
      },
    });
    const host = new PluginHost().place({ plugin: b }).place({ plugin: a });
    await host.start();
    await host.stop();
    expect(trace).toEqual(['+a', '+b', '-b', '-a']);
  });

  it('creates each unit once, however many need it', async () => {
    let made = 0;
    const a = A.plugin({
      id: 'a',
      config: noop,
      create: () => {
        made += 1;
        return { a: 'a' };
      },
    });
    const user = (id: string, n: number) => Chain.plugin({ id, config: noop, needs: { a: A }, create: () => ({ n }) });
    const host = new PluginHost()
      .place({ plugin: user('x', 1) })
      .place({ plugin: user('y', 2) })
      .place({ plugin: a });
    await host.start();
    expect(made).toBe(1);
    expect(host.get(Chain).map(({ n }) => n)).toEqual([1, 2]);
  });

  it('stops a unit whose start failed half way, and all before it', async () => {
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
    const host = new PluginHost({ stopping: () => trace.push('stopping') }).place({ plugin: a }).place({ plugin: b });
    await expect(host.start()).rejects.toMatchObject({ code: 'StartFailed', faults: [{ message: 'b did not start: no socket' }] });
    expect(trace).toEqual(['+b', 'stopping', '-b', '-a']);
  });

  it('stops the others when one does not stop, and says so', async () => {
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
    const host = new PluginHost().place({ plugin: a }).place({ plugin: b });
    await host.start();
    await expect(host.stop()).rejects.toMatchObject({ code: 'StopFailed', faults: [{ message: 'b did not stop cleanly: stuck' }] });
    expect(trace).toEqual(['-a']);
  });

  it("aborts a unit's signal before it stops it", async () => {
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
    const host = new PluginHost().place({ plugin: a });
    await host.start();
    await host.stop();
    expect(seen).toEqual([true]);
  });
});

describe('faults', () => {
  it('reports all faults at once and starts nothing', async () => {
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
      .place({ plugin: a })
      .place({ plugin: a, name: 'second' })
      .place({ plugin: strict, config: { size: 'big', color: 1 } })
      .place({ plugin: lonely });
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

  it('shows a cycle as a path', () => {
    const a = A.plugin({ id: 'a', config: noop, needs: { b: B }, create: () => ({ a: 'a' }) });
    const b = B.plugin({ id: 'b', config: noop, needs: { a: A }, create: () => ({}) });
    expect(new PluginHost().place({ plugin: a }).place({ plugin: b }).check()).toMatchObject([
      { code: 'DependencyCycle', message: 'a -> b -> a' },
    ]);
  });

  it('tells a version that does not fit from an empty slot', () => {
    const newer = slot.one<object>('a/v2');
    const a = A.plugin({ id: 'a', config: noop, create: () => ({ a: 'a' }) });
    const b = B.plugin({ id: 'b', config: noop, needs: { a: newer }, create: () => ({}) });
    expect(new PluginHost().place({ plugin: a }).place({ plugin: b }).check()).toMatchObject([
      { code: 'VersionMismatch', message: 'b needs a/v2, but this cluster has a/v1' },
    ]);
  });

  it('refuses the same name twice in one slot', () => {
    const one = Chain.plugin({ id: 'one', config: noop, create: () => ({ n: 1 }) });
    expect(new PluginHost().place({ plugin: one }).place({ plugin: one }).check()).toMatchObject([{ code: 'NameTaken' }]);
    expect(new PluginHost().place({ plugin: one }).place({ plugin: one, name: 'two' }).check()).toEqual([]);
  });

  it('tells "not available here" from broken', async () => {
    const a = A.plugin({
      id: 'a',
      config: noop,
      probe: async () => unavailable('there is no socket at /run/x.sock'),
      create: () => ({ a: 'a' }),
    });
    const host = new PluginHost().place({ plugin: a });
    expect(host.check()).toEqual([]);
    await expect(host.start()).rejects.toMatchObject({
      code: 'Unavailable',
      faults: [{ message: 'a is not available here, because there is no socket at /run/x.sock' }],
    });
  });

  it('names the unit whose create throws', async () => {
    const a = A.plugin({
      id: 'a',
      config: noop,
      probe: async () => available,
      create: () => {
        throw new Error('bad wiring');
      },
    });
    await expect(new PluginHost().place({ plugin: a }).start()).rejects.toMatchObject({
      code: 'CreateFailed',
      faults: [{ message: 'a could not be created: bad wiring' }],
    });
  });

  it('points at the line a config value was written on', () => {
    const strict = B.plugin({ id: 'strict', config: z.strictObject({ size: z.number() }), create: () => ({}) });
    const at = { file: 'cluster.yaml', line: 7, column: 9 };
    const [fault] = new PluginHost()
      .place({
        plugin: strict,
        config: { size: 'big' },
        configPath: 'spec.b.config',
        locate: (path) => (path.join('.') === 'size' ? at : undefined),
      })
      .check();
    expect(fault).toMatchObject({ at, path: 'spec.b.config.size' });
  });
});

describe('what a plugin is given', () => {
  it('gives lists in order, maps by name, and undefined for an optional need nobody fills', async () => {
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
      .place({ plugin: user })
      .place({ plugin: one('x', 1) })
      .place({ plugin: one('y', 2) });
    await host.start();
    expect(seen).toEqual([undefined, 0, ['x', 'y'], 2]);
  });

  it('has a logger, a clock, a data directory and a metrics registry of its own', async () => {
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
    const host = new PluginHost({ dataDir: '/data' }).place({ plugin: one('x') }).place({ plugin: one('y') });
    await host.start();
    expect(contexts.map(({ name, dataDir }) => [name, dataDir])).toEqual([
      ['x', '/data/x'],
      ['y', '/data/y'],
    ]);
    expect(contexts[0]?.metrics).not.toBe(contexts[1]?.metrics);
  });

  it('is checked by the compiler', () => {
    // @ts-expect-error: slot a wants { a: string }
    A.plugin({ id: 'x', config: noop, create: () => ({ b: 1 }) });
    // @ts-expect-error: the config has no such key
    A.plugin({ id: 'x', config: noop, create: ({ config }) => ({ a: config.name }) });
    expect(A.plugin({ id: 'x', config: noop, create: () => ({ a: '' }) }).provides.id).toBe('a/v1');
  });
});
