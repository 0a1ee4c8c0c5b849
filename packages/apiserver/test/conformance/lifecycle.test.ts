import { afterAll, beforeAll, describe, it } from 'vitest';
import { Wire } from './cluster.ts';
import { operations } from './operations.ts';
import { policyRows } from './rows-policy.ts';
import { thingRows } from './rows-things.ts';

/** What conformance asks of kinds without a running pod: everything that can be done to them, in the order in which it is done there. */
let wire: Wire;
let namespace: string;
beforeAll(async () => {
  wire = await Wire.start();
  namespace = await wire.namespace('lifecycles');
}, 300_000);
afterAll(() => wire.stop());

describe('API operations', () => {
  it.each([...policyRows, ...thingRows])('%s', (_, row) => operations(wire, namespace, row));
});
