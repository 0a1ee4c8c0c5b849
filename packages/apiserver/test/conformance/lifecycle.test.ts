import { afterAll, beforeAll, describe, it } from 'vitest';
import { Wire } from './cluster.ts';
import { operations } from './operations.ts';
import { policyRows } from './rows-policy.ts';
import { thingRows } from './rows-things.ts';

/** Conformance behaviors of kinds without running pods: all operations, in the order in which the suite runs them. */
let wire: Wire;
let namespace: string;
beforeAll(async () => {
  wire = await Wire.start();
  namespace = await wire.namespace('lifecycles');
});
afterAll(() => wire.stop());

describe('API operations', () => {
  it.each([...policyRows, ...thingRows])('%s', (_, row) => operations(wire, namespace, row));
});
