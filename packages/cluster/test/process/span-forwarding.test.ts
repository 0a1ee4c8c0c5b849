import { failure } from '@oarlock/api/status';
import type { Client } from '@oarlock/spi/client';
import { describe, expect, it } from 'vitest';
import { spanForwarding } from '../../src/process/span-forwarding.ts';

describe('spanForwarding', () => {
  const server = (gitVersion: string, rejection?: Error) => {
    const calls: string[] = [];
    const raw = async (method: string, path: string) => {
      calls.push(`${method} ${path}`);
      if (path === '/version') return { gitVersion };
      if (rejection !== undefined) throw rejection;
      return {};
    };
    return { calls, forward: spanForwarding({ raw } as unknown as Client) };
  };

  it('sends spans to Oarlock, and not to other API servers', async () => {
    const ours = server('v1.36.0+oarlock.0.1.0');
    await ours.forward([]);
    await ours.forward([]);
    expect(ours.calls).toEqual(['GET /version', 'POST /oarlock/v1/spans', 'POST /oarlock/v1/spans']);
    const other = server('v1.36.0');
    await other.forward([]);
    await other.forward([]);
    expect(other.calls).toEqual(['GET /version']);
  });

  it('sends nothing after a rejection', async () => {
    const { calls, forward } = server('v1.36.0+oarlock.0.1.0', failure('Forbidden', 'no'));
    await expect(forward([])).rejects.toThrow('no');
    await forward([]);
    expect(calls).toEqual(['GET /version', 'POST /oarlock/v1/spans']);
  });
});
