import { configMaps } from '@oarlock/api/resources';
import { Informers } from '@oarlock/spi/client';
import { Controllers, watch } from '@oarlock/spi/controller';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { configMap } from '../src/objects.ts';
import { testController } from '../src/test-controller.ts';

/** Counts in the data of a ConfigMap how often it was reconciled, every minute. */
const counter = Controllers.plugin({
  id: 'controller-counter',
  config: z.strictObject({ step: z.int().default(1) }),
  needs: { informers: Informers },
  create({ config, informers }, { log }) {
    const cache = informers.forResource(configMaps);
    return {
      name: 'counter',
      watches: [watch(cache, ({ metadata }, old) => (old === undefined ? [`${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`] : []))],
      async reconcile(key, { client, failures }) {
        const map = cache.get(key);
        if (map === undefined) return;
        if (map.data?.['broken'] !== undefined && failures < 3) throw new Error(`failure ${failures}`);
        log.info({ key }, 'counting');
        await client.update(configMaps, { ...map, data: { ...map.data, count: String(Number(map.data?.['count'] ?? 0) + config.step) } });
        return { requeueAfterMs: 60_000 };
      },
    };
  },
});

const countOf = (data: Readonly<Record<string, string>> | undefined) => data?.['count'];

it('reconciles created and existing objects, and later what is requeued', async () => {
  await using test = await testController(counter, {
    config: { step: 2 },
    seed: (api) => api.seed(configMaps, configMap({ name: 'old' })),
  });
  expect(test.api.objects(configMaps).map(({ data }) => countOf(data))).toEqual(['2']);
  expect(countOf((await test.create(configMaps, configMap({ name: 'new' }))).data)).toBe('2');
  await test.advance(59_999);
  expect(test.api.objects(configMaps).map(({ data }) => countOf(data))).toEqual(['2', '2']);
  await test.advance(1);
  expect(test.api.objects(configMaps).map(({ data }) => countOf(data))).toEqual(['4', '4']);
  expect(test.errors).toEqual([]);
});

it('collects errors, and retries with back-off on the clock', async () => {
  await using test = await testController(counter);
  expect(countOf((await test.create(configMaps, configMap({ name: 'a', data: { broken: '' } }))).data)).toBeUndefined();
  expect(test.errors).toEqual([new Error('failure 0')]);
  await test.advance(5 + 10 + 20);
  expect(test.errors).toHaveLength(3);
  expect(test.api.objects(configMaps).map(({ data }) => countOf(data))).toEqual(['1']);
});
