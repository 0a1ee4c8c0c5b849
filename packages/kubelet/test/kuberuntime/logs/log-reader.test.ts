import { appendFile, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LogFormatter, type LogFormat } from '../../../src/kuberuntime/logs/log-formatter.ts';
import { readLogLines, type ReadLogOptions } from '../../../src/kuberuntime/logs/log-reader.ts';

const record = (second: number, text: string, tag = 'F', stream = 'stdout') =>
  `2026-01-01T00:00:${String(second).padStart(2, '0')}.123456789Z ${stream} ${tag} ${text}\n`;
const all: LogFormat = { since: undefined, timestamps: false, limitBytes: undefined, stream: 'All' };
function deferred(): { readonly promise: Promise<void>; resolve(): void } {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
const never = new Promise<void>(() => undefined);

describe('readLogLines', () => {
  let directory: string;
  let path: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-logs-'));
    path = join(directory, '0.log');
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  const read = async (format: Partial<LogFormat> = {}, options: Partial<ReadLogOptions> = {}) => {
    const formatter = new LogFormatter({ ...all, ...format });
    let text = '';
    for await (const lines of readLogLines({
      path,
      follow: false,
      signal: new AbortController().signal,
      ended: Promise.resolve(),
      ...options,
    })) {
      text += formatter.format(lines).toString('utf8');
      if (formatter.full) break;
    }
    return text;
  };

  it('yields the text of records and joins partial ones', async () => {
    await writeFile(
      path,
      record(1, 'one') +
        record(2, 'two', 'P') +
        record(2, ' halves') +
        record(3, '') +
        record(4, 'err', 'F', 'stderr') +
        'not a record\n' +
        record(5, 'end', 'P'),
    );
    expect(await read()).toBe('one\ntwo halves\n\nerr\nend');
    expect(await read({ timestamps: true })).toBe(
      '2026-01-01T00:00:01.123456789Z one\n2026-01-01T00:00:02.123456789Z two halves\n2026-01-01T00:00:03.123456789Z \n2026-01-01T00:00:04.123456789Z err\n2026-01-01T00:00:05.123456789Z end',
    );
    expect(await read({ stream: 'Stderr' })).toBe('err\n');
    expect(await read({ since: Date.UTC(2026, 0, 1, 0, 0, 3) })).toBe('\nerr\nend');
    expect(await read({ limitBytes: 7 })).toBe('one\ntwo');
  });

  it('reads the last lines, also over several blocks', async () => {
    await writeFile(path, Array.from({ length: 20_000 }, (_, index) => record(index % 60, `line ${index}`)).join(''));
    expect(await read({}, { tailLines: 2 })).toBe('line 19998\nline 19999\n');
    expect(await read({}, { tailLines: 0 })).toBe('');
    expect((await read({}, { tailLines: 5000 })).split('\n').slice(0, 1)).toEqual(['line 15000']);
    expect((await read({}, { tailLines: 100_000 })).split('\n')).toHaveLength(20_001);
    expect((await read()).split('\n')).toHaveLength(20_001);
  });

  it('follows a log over a rotation until it ends', async () => {
    const ended = deferred();
    const seen: string[] = [];
    const followed = deferred();
    const following = (async () => {
      const formatter = new LogFormatter(all);
      for await (const lines of readLogLines({ path, follow: true, signal: new AbortController().signal, ended: ended.promise })) {
        seen.push(formatter.format(lines).toString('utf8'));
        if (seen.join('').includes('three')) followed.resolve();
      }
    })();
    await writeFile(path, record(1, 'one'));
    await appendFile(path, record(2, 'two'));
    await rename(path, `${path}.20260101-000003`);
    await writeFile(path, record(3, 'three'));
    await followed.promise;
    await appendFile(path, record(4, 'four'));
    ended.resolve();
    await following;
    expect(seen.join('')).toBe('one\ntwo\nthree\nfour\n');
  });

  it('ends when the signal aborts', async () => {
    await writeFile(path, record(1, 'one'));
    const gone = new AbortController();
    const lines = readLogLines({ path, follow: true, signal: gone.signal, ended: never });
    expect((await lines.next()).value).toHaveLength(1);
    const next = lines.next();
    gone.abort();
    await expect(next).rejects.toThrow();
  });
});
