import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { RemoteRequests } from '../../src/aggregation/remote-requests.ts';
import { decodeRemoteWatch } from '../../src/aggregation/remote-watch.ts';
import { rejectionOf } from '../support/pipeline-fixture.ts';

/** Requests to an extension API server that answers with the text. */
function requestsTo(text: string, statusCode = 200): RemoteRequests {
  const response = () => Object.assign(Readable.from([Buffer.from(text)]), { statusCode, headers: {} }) as unknown as IncomingMessage;
  return new RemoteRequests({
    proxy: { open: () => Promise.resolve(response()) },
    stop: new AbortController().signal,
    target: () => Promise.resolve({} as never),
  });
}
const request = { method: 'GET', path: '/', identity: { name: 'ada', groups: [] } };
const manyValues = `{"items":[${'{},'.repeat(1_000_001)}{}]}`;

describe('a response of an extension API server', () => {
  it('is read up to a bound of values, since empty objects take more time and memory than their bytes', async () => {
    expect(await requestsTo('{"items":[{},{}]}').request({} as never, request)).toEqual({ code: 200, value: { items: [{}, {}] } });
    expect((await rejectionOf(requestsTo(manyValues).request({} as never, request))).message).toBe(
      'error trying to reach service: the response has 2000005 values, at most 2000000 are read',
    );
    const watch = decodeRemoteWatch(Readable.from([Buffer.from(`{"type":"ADDED","object":${manyValues}}\n`)]));
    await expect(watch.next()).rejects.toThrow('the watch event has more than 2000000 values');
  });

  it('is quoted in errors up to a bound', async () => {
    const { message } = await rejectionOf(requestsTo('x'.repeat(100_000), 500).request({} as never, request));
    expect(message.length).toBeLessThan(3000);
  });
});
