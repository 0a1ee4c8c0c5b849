import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { BodyReader } from '../../../src/http/internal/body-reader.ts';
import { BodyReservation, RequestBodyMemory } from '../../../src/http/request-body-memory.ts';

const limit = 100;

function read(length: string | undefined, endAtLength: boolean) {
  const source = new PassThrough();
  const reservation = new BodyReservation(new RequestBodyMemory(limit));
  return { source, reader: new BodyReader(source, { length, limit, reservation, endAtLength }) };
}

describe('a body whose source ends with its declared length', () => {
  it('is complete with its last byte, before the source emits `end`', async () => {
    const { source, reader } = read('6', true);
    source.write('abc');
    source.write('def');
    expect((await reader.body).toString()).toBe('abcdef');
    expect([reader.isComplete, reader.isReading, source.isPaused()]).toEqual([true, false, true]);
  });

  it('stays complete when the source closes afterwards', async () => {
    const { source, reader } = read('3', true);
    source.write('abc');
    await reader.body;
    source.destroy();
    await once(source, 'close');
    expect((await reader.body).toString()).toBe('abc');
  });

  it('is rejected if the source closes before the last byte', async () => {
    const { source, reader } = read('6', true);
    source.write('abc');
    await expect.poll(() => reader.received).toBe(3);
    source.destroy();
    await expect(reader.body).rejects.toThrow('the client closed the connection before the whole body was read');
    expect(reader.isComplete).toBe(false);
  });
});

describe.each([
  ['of a declared length on another source', '3', false],
  ['without a declared length', undefined, true],
] as const)('a body %s', (_, length, endAtLength) => {
  it('is complete when the source ends', async () => {
    const { source, reader } = read(length, endAtLength);
    source.write('abc');
    await expect.poll(() => reader.received).toBe(3);
    expect(reader.isReading).toBe(true);
    source.end();
    expect((await reader.body).toString()).toBe('abc');
    expect(reader.isComplete).toBe(true);
  });
});
