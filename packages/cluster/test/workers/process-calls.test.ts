import { failure } from '@oarlock/api/status';
import { describe, expect, it } from 'vitest';
import { ProcessCalls, type CallHandlers } from '../../src/workers/process-calls.ts';

function pair(handlers: CallHandlers): { readonly caller: ProcessCalls; readonly callee: ProcessCalls } {
  const caller: ProcessCalls = new ProcessCalls((message) => callee.receive(structuredClone(message)), {});
  const callee: ProcessCalls = new ProcessCalls((message) => caller.receive(structuredClone(message)), handlers);
  return { caller, callee };
}

describe('ProcessCalls', () => {
  it('returns the value of the method', async () => {
    const { caller } = pair({ double: (value: number) => value * 2 });
    expect(await Promise.all([caller.call('double', 2), caller.call('double', 4)])).toEqual([4, 8]);
  });

  it('rejects with the error of the method, with its Status', async () => {
    const { caller } = pair({
      fail: () => {
        throw failure('NotFound', 'no such thing');
      },
    });
    await expect(caller.call('fail')).rejects.toMatchObject({ status: { reason: 'NotFound' } });
    for (const method of ['other', 'constructor', 'toString', '__proto__'])
      await expect(caller.call(method)).rejects.toThrow(`unknown method ${method}`);
  });

  it('rejects when the argument or the value cannot be copied', async () => {
    const { caller } = pair({ make: () => () => undefined });
    await expect(caller.call('make', () => undefined)).rejects.toThrow('could not be cloned');
    await expect(caller.call('make')).rejects.toThrow('could not be cloned');
  });

  it('rejects calls when the other process has ended', async () => {
    const caller = new ProcessCalls(() => undefined, {});
    const waiting = caller.call('any');
    caller.end(new Error('it ended'));
    await expect(waiting).rejects.toThrow('it ended');
    await expect(caller.call('any')).rejects.toThrow('it ended');
  });
});
