import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { configMap, TestServer } from '../support/pipeline-fixture.ts';

let server: TestServer;
beforeEach(async () => {
  server = await TestServer.start();
});
afterEach(() => server.stop());

/** Returns how many event loop turns pass until `work` is done. */
async function turnsUntil(work: Promise<unknown>): Promise<number> {
  let [turns, over] = [0, false];
  const count = () => {
    if (over) return;
    turns++;
    setImmediate(count);
  };
  setImmediate(count);
  await work;
  over = true;
  return turns;
}

const keys = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, 'v']));
const large = { bytes: 2_400_000 };

describe('large body', () => {
  it('yields the event loop between the steps of a create', async () => {
    const turns = await turnsUntil(server.create('configmaps', configMap('large', keys(180_000)), { ...large, query: { dryRun: 'All' } }));
    expect(turns).toBeGreaterThanOrEqual(5);
  });

  it('yields the event loop between the steps of an update', async () => {
    await server.create('configmaps', configMap('large'));
    const turns = await turnsUntil(server.update('configmaps', configMap('large', keys(1_000)), large));
    expect(turns).toBeGreaterThanOrEqual(4);
  });

  it('yields the event loop between comparing, merging and encoding fields', async () => {
    const apply = (name: string, fieldManager: string) =>
      turnsUntil(
        server.patch('configmaps', name, configMap(name, keys(1_000)), {
          ...large,
          patchType: 'apply',
          query: { fieldManager, force: 'true' },
        }),
      );
    const counts = {
      create: await turnsUntil(server.create('configmaps', configMap('created', keys(1_000)), large)),
      update: await turnsUntil(server.update('configmaps', configMap('created', keys(2_000)), large)),
      firstApply: await apply('applied', 'first'),
      secondApply: await apply('applied', 'second'),
    };
    for (const [write, turns] of Object.entries(counts))
      expect([write, turns]).toEqual([write, expect.toSatisfy((count: number) => count >= 8)]);
  });

  it('yields the event loop between the steps of an apply that is compared with other managers', async () => {
    const apply = (fieldManager: string, data: Readonly<Record<string, string>>, force: string) =>
      turnsUntil(
        server
          .patch('configmaps', 'applied', configMap('applied', data), { ...large, patchType: 'apply', query: { fieldManager, force } })
          .catch((error: unknown) => expect(error).toMatchObject({ status: { reason: 'Conflict' } })),
      );
    await apply('first', keys(1_000), 'true');
    const counts = { fewerFields: await apply('first', keys(999), 'true'), conflict: await apply('second', { k0: 'c' }, 'false') };
    expect([counts, counts.fewerFields >= 22, counts.conflict >= 7]).toEqual([counts, true, true]);
  });

  it('of a component of the process yields the event loop', async () => {
    const turns = await turnsUntil(server.create('configmaps', configMap('large', keys(10_000)), { query: { dryRun: 'All' } }));
    expect(turns).toBeGreaterThanOrEqual(5);
    expect(await turnsUntil(server.create('configmaps', configMap('small', keys(100)), { query: { dryRun: 'All' } }))).toBeLessThanOrEqual(
      1,
    );
  });

  it('is overtaken by later requests', async () => {
    await server.create('configmaps', configMap('small'));
    const done: string[] = [];
    const slow = server.create('configmaps', configMap('large', keys(50_000)), large).then(() => done.push('large'));
    for (let n = 0; n < 3; n++) {
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
      await server.get('configmaps', 'small');
      done.push('small');
    }
    await slow;
    expect(done).toEqual(['small', 'small', 'small', 'large']);
  });

  it('small bodies do not yield', async () => {
    const turns = await turnsUntil(server.create('configmaps', configMap('small'), { bytes: 100, query: { dryRun: 'All' } }));
    expect(turns).toBeLessThanOrEqual(1);
  });
});
