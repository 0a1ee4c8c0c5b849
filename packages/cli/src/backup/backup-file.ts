import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { CommandError } from '../common/command-error.ts';

/** The first line of a backup. Every line is JSON; the file is compressed with gzip. */
export interface BackupHead {
  readonly format: 'oarlock-backup';
  readonly version: 1;
  readonly cluster: string;
  /** RFC 3339. */
  readonly createdAt: string;
  /** Storage revision that all entries were read at. */
  readonly revision: number;
}
/** A file of the data directory, in base64. */
export interface BackedUpFile {
  readonly file: string;
  readonly content: string;
}
export interface BackedUpEntry {
  readonly key: string;
  readonly value: string;
}
/** The last line: how many entries there are, and the SHA-256 of all lines before this one, each with its line feed. */
interface BackupEnd {
  readonly entries: number;
  readonly sha256: string;
}
export type BackupLine = BackedUpFile | BackedUpEntry;

export const isFile = (line: BackupLine): line is BackedUpFile => 'file' in line;

/**
 * Writes a backup with mode 0600 and returns the number of entries. The file is written under a temporary name and renamed, so a file of the
 * final name is always complete.
 */
export async function writeBackup(file: string, head: BackupHead, lines: AsyncIterable<BackupLine>): Promise<number> {
  const temporary = `${file}.${randomBytes(4).toString('hex')}.tmp`;
  let entries = 0;
  async function* text(): AsyncGenerator<string> {
    const hash = createHash('sha256');
    const line = (content: object) => {
      const json = `${JSON.stringify(content)}\n`;
      hash.update(json);
      return json;
    };
    yield line(head);
    for await (const each of lines) {
      if (!isFile(each)) entries += 1;
      yield line(each);
    }
    yield `${JSON.stringify({ entries, sha256: hash.digest('hex') } satisfies BackupEnd)}\n`;
  }
  try {
    await pipeline(text(), createGzip(), createWriteStream(temporary, { mode: 0o600, flags: 'wx' }));
    await sync(temporary);
    await rename(temporary, file);
    await sync(dirname(file));
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  return entries;
}

async function sync(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function* linesOf(file: string): AsyncGenerator<string> {
  const source = createReadStream(file);
  const unzipped = source.pipe(createGunzip());
  source.on('error', (error) => unzipped.destroy(error));
  try {
    yield* createInterface({ input: unzipped, crlfDelay: Infinity });
    if (unzipped.errored) throw unzipped.errored;
  } finally {
    source.destroy();
  }
}

/** Reads a backup once to check that it is complete. @throws CommandError if it is incomplete, damaged or not a backup */
export async function checkBackup(file: string): Promise<BackupHead & { readonly entries: number }> {
  const invalid = (problem: string, cause?: unknown) => new CommandError(`${file} cannot be restored: ${problem}`, undefined, { cause });
  const hash = createHash('sha256');
  let head: BackupHead | undefined;
  let entries = 0;
  let last: string | undefined;
  const take = (line: string) => {
    hash.update(`${line}\n`);
    if (head === undefined) head = parsedHead(line);
    else if (line.startsWith('{"key":')) entries += 1;
  };
  try {
    for await (const line of linesOf(file)) {
      if (last !== undefined) take(last);
      last = line;
    }
  } catch (error) {
    throw error instanceof CommandError ? error : invalid((error as Error).message, error);
  }
  if (head === undefined || last === undefined) throw invalid('the backup is incomplete');
  let end: Partial<BackupEnd>;
  try {
    end = JSON.parse(last) as Partial<BackupEnd>;
  } catch (error) {
    throw invalid('the file is truncated', error);
  }
  if (end.sha256 !== hash.digest('hex') || end.entries !== entries)
    throw invalid('the checksum does not match: the file is damaged or truncated');
  return { ...head, entries };

  function parsedHead(line: string): BackupHead {
    let parsed: Partial<BackupHead> = {};
    try {
      parsed = JSON.parse(line) as Partial<BackupHead>;
    } catch (error) {
      throw invalid('it is not a backup', error);
    }
    if (parsed.format !== 'oarlock-backup') throw invalid('it is not a backup');
    if (parsed.version !== 1) throw invalid(`unknown format version ${String(parsed.version)}; a newer release of Oarlock wrote it`);
    return parsed as BackupHead;
  }
}

/** Yields the files and entries of a backup that checkBackup accepted. */
export async function* readBackup(file: string): AsyncGenerator<BackupLine> {
  let first = true;
  for await (const line of linesOf(file)) {
    if (!first && !line.startsWith('{"entries":')) yield JSON.parse(line) as BackupLine;
    first = false;
  }
}
