import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { criTime, LogFile, RecordFormat } from '../../../src/containers/internal/cri-log.ts';

let directory = '';
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cri-log-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** Splits a text at random positions. */
const pieces = fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 }), { maxLength: 30 });

describe('CRI log', () => {
  const text = (records: readonly Buffer[]) => Buffer.concat(records).toString();
  it('times have nine fractional digits', () => {
    expect(criTime(Date.UTC(2026, 0, 2, 3, 4, 5, 678), 42)).toBe('2026-01-02T03:04:05.678000042Z');
  });
  it('splits long lines into partial records of 16 KiB', () => {
    const format = new RecordFormat('stdout');
    expect(text(format.push(Buffer.from(`${'x'.repeat(16_384)}\n`), 'T'))).toBe(`T stdout F ${'x'.repeat(16_384)}\n`);
    expect(text(format.push(Buffer.from(`${'y'.repeat(16_385)}\n`), 'T'))).toBe(`T stdout P ${'y'.repeat(16_384)}\nT stdout F y\n`);
    expect(text(format.push(Buffer.from('\n\n'), 'T'))).toBe('T stdout F \nT stdout F \n');
    expect(text(format.push(Buffer.from('open'), 'T'))).toBe('');
    expect(text(format.end('T'))).toBe('T stdout P open\n');
    expect(text(format.end('T'))).toBe('');
  });
  it('contains the output for every split of the input', () => {
    fc.assert(
      fc.property(pieces, (chunks) => {
        const format = new RecordFormat('stderr');
        const log = Buffer.concat([...chunks.flatMap((chunk) => format.push(Buffer.from(chunk), 'T')), ...format.end('T')]).toString(
          'latin1',
        );
        const back = log
          .split('\n')
          .slice(0, -1)
          .map((line) => line.slice('T stderr F '.length) + (line[9] === 'F' ? '\n' : ''))
          .join('');
        expect(back).toBe(Buffer.concat(chunks).toString('latin1'));
      }),
    );
  });
  it('continues in a new file after reopen, and reports write errors', async () => {
    const path = join(directory, 'a/0.log');
    const log = new LogFile(path, () => {});
    log.append([Buffer.from('one\n')]);
    await log.flushed();
    await rename(path, `${path}.1`);
    await log.reopen();
    log.append([Buffer.from('two\n')]);
    await log.close();
    expect([await readFile(`${path}.1`, 'utf8'), await readFile(path, 'utf8')]).toEqual(['one\n', 'two\n']);
    if (!existsSync('/dev/full')) return;
    const failures: Error[] = [];
    const full = new LogFile('/dev/full', (error) => failures.push(error));
    full.append([Buffer.from('x')]);
    await full.close();
    expect(failures).toMatchObject([{ code: 'ENOSPC' }]);
  });
});
