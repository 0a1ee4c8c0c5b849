import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PodStore } from '../../src/containers/pod-store.ts';

const id = 'a'.repeat(64);

describe('PodStore', () => {
  let dataDir: string;
  let record: string;
  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), 'pod-store-'));
    record = join(dataDir, 'pods', id, 'sandbox.json');
    mkdirSync(join(dataDir, 'pods', id), { recursive: true });
  });
  afterEach(() => rmSync(dataDir, { recursive: true }));

  it.each([
    ['is truncated', () => writeFileSync(record, '{"id":')],
    ['has no id', () => writeFileSync(record, '{}')],
    ['was not written before a power failure', () => undefined],
  ])('removes and names a pod whose record %s', (_, damage) => {
    damage();
    expect(new PodStore(dataDir).load()).toEqual({ pods: [], broken: [id] });
    expect(existsSync(join(dataDir, 'pods', id))).toBe(false);
  });

  it('keeps the record of a pod if it cannot be read', () => {
    mkdirSync(record);
    expect(() => new PodStore(dataDir).load()).toThrow('EISDIR');
    expect(existsSync(record)).toBe(true);
  });
});
