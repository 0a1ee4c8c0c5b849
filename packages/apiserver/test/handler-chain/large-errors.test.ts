import { StatusError, type Status } from '@oarlock/api/status';
import type { AuditEvent } from '@oarlock/spi/audit';
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { testKeys, type TestKeys } from '../support/keys.ts';
import { startServer, type TestServer } from '../support/start-server.ts';

let keys: TestKeys;
let server: TestServer;
/** What happens after the pipeline has rejected the request, in order. */
let order: string[];
beforeAll(async () => {
  keys = await testKeys();
});
beforeEach(async () => {
  order = [];
  const record = ({ stage }: AuditEvent) => {
    if (stage === 'ResponseComplete') order.push('audited');
  };
  server = await startServer({ keys, audit: [{ record }] });
});
afterEach(() => server.stop());

/** Rejects requests with the status. Records when the response is encoded, and the next turns of the event loop. */
function rejectWith(more: Partial<Status>): void {
  server.pipeline.answer = () => {
    setImmediate(() => {
      order.push('turn');
      setImmediate(() => order.push('turn'));
    });
    const status: Status = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', reason: 'Invalid', code: 422, ...more };
    Object.defineProperty(status, 'metadata', {
      enumerable: true,
      get: () => {
        if (!order.includes('sent')) order.push('sent');
        return {};
      },
    });
    throw new StatusError(status);
  };
}
const cause = { reason: 'FieldValueInvalid', message: 'm', field: 'f' };

describe('an error', () => {
  it.each<[string, Partial<Status>]>([
    ['a message of 100 KB', { message: 'x'.repeat(100_000) }],
    ['2,000 causes', { message: 'm', details: { causes: Array.from({ length: 2_000 }, () => cause) } }],
  ])('with %s is sent and audited in turns of their own', async (_title, more) => {
    rejectWith(more);
    expect((await server.http1('GET', '/api/v1/namespaces/default/configmaps/a')).code).toBe(422);
    await vi.waitFor(() => expect(order).toContain('audited'), { timeout: 60_000, interval: 5 });
    expect(order.slice(0, 4)).toEqual(['turn', 'sent', 'turn', 'audited']);
  });

  it('with a short message is sent and audited at once', async () => {
    rejectWith({ message: 'short' });
    expect((await server.http1('GET', '/api/v1/namespaces/default/configmaps/a')).code).toBe(422);
    expect(order.slice(0, 2)).toEqual(['sent', 'audited']);
  });
});
