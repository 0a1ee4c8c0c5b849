import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { CommandError } from './exit.ts';

/** The first line of a backup. All lines are JSON; the file is gzipped. */
export interface BackupHead {
  readonly format: 'oarlock-backup';
  readonly version: 1;
  readonly cluster: string;
  /** RFC 3339. */
  readonly createdAt: string;
  /** Everything that is stored, as of this revision. */
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
 * Writes a backup, mode 0600: under another name first, so that a file of this name is whole. Returns the number of entries.
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

/** Reads all of a backup once, to see whether it is whole. @throws CommandError when it is not, or is none */
export async function checkBackup(file: string): Promise<BackupHead & { readonly entries: number }> {
  const not = (what: string, cause?: unknown) => new CommandError(`${file} cannot be restored: ${what}`, undefined, { cause });
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
    throw error instanceof CommandError ? error : not((error as Error).message, error);
  }
  if (head === undefined || last === undefined) throw not('it is not a whole backup');
  let end: Partial<BackupEnd>;
  try {
    end = JSON.parse(last) as Partial<BackupEnd>;
  } catch (error) {
    throw not('it is cut off', error);
  }
  if (end.sha256 !== hash.digest('hex') || end.entries !== entries) throw not('its checksum does not agree: it is damaged or cut off');
  return { ...head, entries };

  function parsedHead(line: string): BackupHead {
    let parsed: Partial<BackupHead> = {};
    try {
      parsed = JSON.parse(line) as Partial<BackupHead>;
    } catch (error) {
      throw not('it is not a backup', error);
    }
    if (parsed.format !== 'oarlock-backup') throw not('it is not a backup');
    if (parsed.version !== 1) throw not(`its version ${String(parsed.version)} is not known: a newer release wrote it`);
    return parsed as BackupHead;
  }
}

/** Files and entries of a backup that was checked. */
export async function* readBackup(file: string): AsyncGenerator<BackupLine> {
  let first = true;
  for await (const line of linesOf(file)) {
    if (!first && !line.startsWith('{"entries":')) yield JSON.parse(line) as BackupLine;
    first = false;
  }
}
