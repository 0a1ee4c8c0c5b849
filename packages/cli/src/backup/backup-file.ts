import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import type { Readable } from 'node:stream';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { fileErrorReason } from '@oarlock/primitives/os/file-error';
import { CommandError } from '../common/command-error.ts';

/** The first line of a backup. Every line is JSON; the file is compressed with gzip. */
export interface BackupHead {
  readonly format: 'oarlock-backup';
  readonly version: 1;
  readonly cluster: string;
  /** Creation time in RFC 3339. */
  readonly createdAt: string;
  /** Storage revision at which all entries were read. */
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
/** The last line of a backup: the number of entries, and the SHA-256 of all previous lines, each with its line feed. */
interface BackupEnd {
  readonly entries: number;
  readonly sha256: string;
}
export type BackupLine = BackedUpFile | BackedUpEntry;

export const isFile = (line: BackupLine): line is BackedUpFile => 'file' in line;

/**
 * Writes a backup with mode 0600 and returns the number of entries. Writes to a temporary name and renames the file, so that a file with the final
 * name is always complete.
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

/**
 * Maximum length of a line in bytes: the largest value of any storage in base64, with its key. Without a limit, a few bytes of gzip could inflate to
 * any size.
 */
const maxLineBytes = 16 * 1024 * 1024;
const lineFeed = 0x0a;

/** Yields the content of a compressed file. @throws Error if the file is not gzip */
export async function* unzipped(source: Readable): AsyncGenerator<Buffer> {
  const content = source.pipe(createGunzip());
  source.on('error', (error) => content.destroy(error));
  try {
    yield* content as AsyncIterable<Buffer>;
  } finally {
    source.destroy();
  }
}

/** Yields the lines of a content. @throws Error if a line is longer than `maxLineBytes` */
async function* linesOf(content: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let parts: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of content) {
    let start = 0;
    for (let end = chunk.indexOf(lineFeed); end >= 0; end = chunk.indexOf(lineFeed, start)) {
      yield Buffer.concat([...parts, chunk.subarray(start, end)]).toString('utf8');
      [parts, bytes, start] = [[], 0, end + 1];
    }
    if (start === chunk.length) continue;
    parts.push(chunk.subarray(start));
    bytes += chunk.length - start;
    if (bytes > maxLineBytes) throw new Error(`a line is longer than ${maxLineBytes} bytes`);
  }
  if (bytes > 0) yield Buffer.concat(parts).toString('utf8');
}

const base64 = /^[A-Za-z0-9+/]*={0,2}$/;
const isText = (value: unknown): value is string => typeof value === 'string' && value !== '' && !value.includes('\0');

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('a line is not JSON'); // the parser's message quotes the line, which may be a key
  }
}

/** Parses a line between the first and the last line. @throws Error if the line is neither a file nor an entry */
function parseLine(text: string): BackupLine {
  const line = jsonOf(text) as { readonly [key: string]: unknown } | null;
  if (typeof line !== 'object' || line === null) throw new Error('a line is not an object');
  const { file, content, key, value, ...others } = line;
  if (Object.keys(others).length > 0) throw new Error(`a line has the unknown field ${JSON.stringify(Object.keys(others)[0])}`);
  const [name, data] = file === undefined ? [key, value] : [file, content];
  if (!isText(name) || typeof data !== 'string' || !base64.test(data) || (file !== undefined && key !== undefined))
    throw new Error('a line is neither a file nor an entry');
  return file === undefined ? { key: name, value: data } : { file: name, content: data };
}

/** Reads a backup once to check that it is complete. @throws CommandError if it is incomplete, damaged or not a backup */
export const checkBackup = (file: string): Promise<BackupHead & { readonly entries: number }> =>
  checkBackupContent(unzipped(createReadStream(file)), file);

/** Checks the uncompressed content of a backup; errors name `file`. @throws CommandError as `checkBackup` */
export async function checkBackupContent(content: AsyncIterable<Buffer>, file: string): Promise<BackupHead & { readonly entries: number }> {
  const invalid = (problem: string, cause?: unknown) => new CommandError(`${file} cannot be restored: ${problem}`, undefined, { cause });
  const hash = createHash('sha256');
  let head: BackupHead | undefined;
  let entries = 0;
  let last: string | undefined;
  const take = (line: string) => {
    hash.update(`${line}\n`);
    if (head === undefined) head = parsedHead(line);
    else if (!isFile(parseLine(line))) entries += 1;
  };
  try {
    for await (const line of linesOf(content)) {
      if (last !== undefined) take(last);
      last = line;
    }
  } catch (error) {
    if (error instanceof CommandError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw invalid(head === undefined && code === 'Z_DATA_ERROR' ? 'it is not a backup' : fileErrorReason(error), error);
  }
  if (head === undefined || last === undefined) throw invalid('the backup is incomplete');
  let end: Partial<BackupEnd> | null;
  try {
    end = JSON.parse(last) as Partial<BackupEnd> | null;
  } catch (error) {
    throw invalid('the file is truncated', error);
  }
  if (end === null) throw invalid('the file is truncated');
  if (end.sha256 !== hash.digest('hex') || end.entries !== entries)
    throw invalid('the checksum does not match: the file is damaged or truncated');
  return { ...head, entries };

  function parsedHead(line: string): BackupHead {
    let parsed: Partial<BackupHead> | null = null;
    try {
      parsed = JSON.parse(line) as Partial<BackupHead> | null;
    } catch (error) {
      throw invalid('it is not a backup', error);
    }
    if (parsed?.format !== 'oarlock-backup') throw invalid('it is not a backup');
    if (parsed.version !== 1) throw invalid(`unknown format version ${String(parsed.version)}; a newer release of Oarlock wrote it`);
    if (!Number.isSafeInteger(parsed.revision) || (parsed.revision ?? -1) < 0 || ![parsed.cluster, parsed.createdAt].every(isText))
      throw invalid('its first line is not valid');
    return parsed as BackupHead;
  }
}

/** Yields the files and entries of a backup that `checkBackup` accepted. */
export const readBackup = (file: string): AsyncGenerator<BackupLine> => readBackupContent(unzipped(createReadStream(file)));

/** Yields the files and entries of a content that `checkBackupContent` accepted: every line but the first and the last one. */
export async function* readBackupContent(content: AsyncIterable<Buffer>): AsyncGenerator<BackupLine> {
  let isFirst = true;
  let previous: string | undefined;
  for await (const line of linesOf(content)) {
    if (previous !== undefined) yield parseLine(previous);
    previous = isFirst ? undefined : line;
    isFirst = false;
  }
}
