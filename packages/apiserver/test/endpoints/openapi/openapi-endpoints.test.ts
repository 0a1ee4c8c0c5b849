import { kinds } from '@oarlock/api/kinds';
import { describe, expect, it } from 'vitest';
import type { Exchange } from '../../../src/http/exchange.ts';
import type { Query } from '../../../src/http/path.ts';
import { OpenApiEndpoints } from '../../../src/endpoints/openapi/openapi-endpoints.ts';

const served = kinds.filter(({ group }) => group === 'coordination.k8s.io');
const query: Query = { first: {}, all: new Map() } as unknown as Query;

/** Returns the index of OpenAPI v3, which identifies documents by their hashes. */
async function indexOf(endpoints: OpenApiEndpoints): Promise<{ readonly index: string; readonly etag: string }> {
  let [index, etag] = ['', ''];
  const exchange: Pick<Exchange, 'headers' | 'method' | 'setHeader' | 'send'> = {
    headers: {},
    method: 'GET',
    setHeader: (name, value) => {
      if (name.toLowerCase() === 'etag') etag = String(value);
    },
    send: (_code, body) => {
      index = String(body);
    },
  };
  await endpoints.send(exchange as Exchange, '/openapi/v3', query);
  return { index, etag };
}
const withDescriptions = (text: string) => new OpenApiEndpoints({ served: () => served, version: 'v1.36.0', descriptions: () => text });

describe('hash of an OpenAPI document', () => {
  it('changes only with the field descriptions', async () => {
    const first = await indexOf(withDescriptions('one'));
    expect(first.index).toMatch(/\?hash=[0-9A-F]{64}/);
    expect(await indexOf(withDescriptions('one'))).toEqual(first);
    const other = await indexOf(withDescriptions('another'));
    expect(other.index).not.toBe(first.index);
    expect(other.etag).not.toBe(first.etag);
  });

  it('covers the descriptions of the built-in kinds', async () => {
    const own = await indexOf(new OpenApiEndpoints({ served: () => served, version: 'v1.36.0' }));
    expect(own.index).not.toBe((await indexOf(withDescriptions(''))).index);
  });
});
