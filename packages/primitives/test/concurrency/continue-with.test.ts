import { describe, expect, it } from 'vitest';
import { continueWith, withCleanup } from '../../src/concurrency/continue-with.ts';

const failure = new Error('broken');

describe('continueWith', () => {
  it('calls the next step at once with a value', () => {
    expect(continueWith(2, (value) => value + 1)).toBe(3);
  });
  it('calls the next step when a promise resolves', async () => {
    const result = continueWith(Promise.resolve(2), (value) => value + 1);
    expect(result).toBeInstanceOf(Promise);
    expect(await result).toBe(3);
  });
  it('does not call the next step after a rejection', async () => {
    await expect(
      continueWith(Promise.reject(failure), () => {
        throw new Error('was called');
      }),
    ).rejects.toBe(failure);
  });
});

describe('withCleanup', () => {
  const recorded = (work: () => unknown) => {
    const order: string[] = [];
    const run = () =>
      withCleanup(
        () => {
          order.push('work');
          return work();
        },
        () => order.push('cleanup'),
      );
    return { order, run };
  };

  it('cleans up before it returns a value', () => {
    const { order, run } = recorded(() => 'result');
    expect(run()).toBe('result');
    expect(order).toEqual(['work', 'cleanup']);
  });
  it('cleans up before it throws', () => {
    const { order, run } = recorded(() => {
      throw failure;
    });
    expect(run).toThrow(failure);
    expect(order).toEqual(['work', 'cleanup']);
  });
  it('cleans up when the promise has settled, not before', async () => {
    let reject: ((reason: unknown) => void) | undefined;
    const { order, run } = recorded(
      () =>
        new Promise((_, rejectPromise) => {
          reject = rejectPromise;
        }),
    );
    const running = run();
    expect(order).toEqual(['work']);
    reject?.(failure);
    await expect(running).rejects.toBe(failure);
    expect(order).toEqual(['work', 'cleanup']);
  });
});
