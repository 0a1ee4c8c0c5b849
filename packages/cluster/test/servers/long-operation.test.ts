import { FakeClock } from '@oarlock/testing/fake-clock';
import { expect, it } from 'vitest';
import { isRunning, LongOperation } from '../../src/servers/long-operation.ts';

const setUp = () => {
  const clock = new FakeClock();
  let ids = 0;
  const operation = new LongOperation(clock, () => `id-${(ids += 1)}`);
  let finish: (value: unknown) => void = () => undefined;
  let fail: (error: Error) => void = () => undefined;
  const work = () =>
    new Promise((resolve, reject) => {
      finish = resolve;
      fail = reject;
    });
  return { clock, operation, work, finish: (value: unknown) => finish(value), fail: (error: Error) => fail(error) };
};

it('returns the result of short work', async () => {
  const { operation } = setUp();
  expect(await operation.start(async () => ({ done: true }))).toEqual({ code: 200, body: { done: true } });
});

it('continues long work, whose result a later request obtains, also twice', async () => {
  const { clock, operation, work, finish } = setUp();
  const first = operation.start(work);
  await clock.advance(20_000);
  const { code, body } = await first;
  expect([code, body, isRunning(body)]).toEqual([202, { operation: 'id-1' }, true]);
  expect((await operation.start(work)).code).toBe(409);
  const again = operation.resume('id-1');
  await clock.advance(20_000);
  expect((await again).code).toBe(202);
  const last = operation.resume('id-1');
  finish({ done: true });
  expect(await last).toEqual({ code: 200, body: { done: true } });
  expect(await operation.resume('id-1')).toEqual({ code: 200, body: { done: true } });
  expect((await operation.resume('id-0')).code).toBe(404);
});

it('rejects with the error of the work, and starts again afterward', async () => {
  const { clock, operation, work, fail } = setUp();
  const first = operation.start(work);
  await clock.advance(20_000);
  expect((await first).code).toBe(202);
  const second = operation.resume('id-1');
  fail(new Error('the disk is full'));
  await expect(second).rejects.toThrow('the disk is full');
  expect((await operation.start(async () => 1)).code).toBe(200);
});
