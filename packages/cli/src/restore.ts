import { mkdir, readFile } from 'node:fs/promises';
import { dirname, join, normalize, resolve } from 'node:path';
import { openStorage } from '@oarlock/cluster/open-storage';
import { writeAtomic } from '@oarlock/cluster/files';
import type { StorageDriver, Write } from '@oarlock/spi/storage';
import { checkBackup, isFile, readBackup, type BackedUpEntry, type BackedUpFile } from './backup-file.ts';
import { clusterFileOf, keyDirectories } from './backup.ts';
import { CommandError } from './exit.ts';

export interface RestoreOptions {
  readonly dataDir: string;
  readonly input: string;
  readonly file?: string;
  readonly keys: boolean;
}

/** There while a restore is under way: one that broke off begins anew. */
const marker = '/oarlock/restore';
/** The old cluster may have gone on after the backup; no revision of it may come again. */
const leap = 1_000_000_000;
/** Storages take at least so much at once. */
const chunk = { writes: 64, bytes: 512 * 1024 };
/** Kept for a time only, which storage does not tell: events for an hour anew; the leases of API servers are nobody's any more. */
const eventSeconds = 3600;
const isEvent = (key: string) => key.startsWith('/registry/events/');
const isPassing = (key: string) => key.startsWith('/registry/masterleases/') || key === marker;

/** Fills an empty storage from a backup. */
export async function restore(options: RestoreOptions): Promise<void> {
  const dataDir = resolve(options.dataDir);
  const input = resolve(options.input);
  const head = await checkBackup(input);
  const { driver, name, close } = await openStorage(await clusterFileOf(options.file), dataDir);
  try {
    if (!driver.traits.durable)
      throw new CommandError(`${name} keeps nothing when its process ends: restore into a cluster.yaml with another storage`);
    if (options.keys) for await (const line of readBackup(input)) if (isFile(line)) await checkKey(dataDir, line);
    await prepare(driver, name);
    if (driver.skipTo) await driver.skipTo(head.revision + leap);
    let entries = 0;
    for await (const writes of chunks(readBackup(input))) {
      await commit(driver, writes);
      entries += writes.length;
    }
    if (options.keys) for await (const line of readBackup(input)) if (isFile(line)) await writeKey(dataDir, line);
    await commit(driver, [{ key: marker, value: null }]);
    const revision = await driver.requestProgress();
    await driver.compact(revision);
    console.log(`${entries} entries of ${head.cluster}, as of ${head.createdAt}, are in ${name} at revision ${revision}`);
    if (revision <= head.revision)
      console.log(
        `The revisions of ${name} go on below those of the backup, at ${head.revision}: restart whatever watches the cluster, so that it lists anew.`,
      );
  } finally {
    await close();
  }
}

/** @throws CommandError when something is stored that no restore has begun */
async function prepare(driver: StorageDriver, name: string): Promise<void> {
  const { entries } = await driver.range({ prefix: '', limit: 1 });
  const begun = (await driver.get(marker)).entry !== undefined;
  if (entries.length > 0 && !begun) throw new CommandError(`${name} is not empty: restore into an empty storage`);
  await commit(driver, [{ key: marker, value: Buffer.from('{}') }]);
  for (;;) {
    const page = await driver.range({ prefix: '', limit: chunk.writes });
    const left = page.entries.filter(({ key }) => key !== marker);
    if (left.length === 0) return;
    await commit(
      driver,
      left.map(({ key }) => ({ key, value: null })),
    );
  }
}

async function commit(driver: StorageDriver, writes: readonly Write[]): Promise<void> {
  const { ok } = await driver.commit(writes, []);
  if (!ok) throw new Error('a commit that expects nothing was refused');
}

async function* chunks(lines: AsyncIterable<BackedUpFile | BackedUpEntry>): AsyncGenerator<readonly Write[]> {
  let writes: Write[] = [];
  let bytes = 0;
  for await (const line of lines) {
    if (isFile(line) || isPassing(line.key)) continue;
    const value = Buffer.from(line.value, 'base64');
    if (writes.length > 0 && (writes.length >= chunk.writes || bytes + value.length > chunk.bytes)) {
      yield writes;
      writes = [];
      bytes = 0;
    }
    writes.push({ key: line.key, value, ...(isEvent(line.key) && { ttlSeconds: eventSeconds }) });
    bytes += value.length;
  }
  if (writes.length > 0) yield writes;
}

/** Where a key goes. @throws CommandError for what is no key's place */
function placeOf(dataDir: string, { file }: BackedUpFile): string {
  const path = normalize(file);
  if (!keyDirectories.some((directory) => path.startsWith(`${directory}/`)))
    throw new CommandError(`the backup has a file ${JSON.stringify(file)}, which is no place for keys`);
  return join(dataDir, path);
}

async function checkKey(dataDir: string, line: BackedUpFile): Promise<void> {
  const place = placeOf(dataDir, line);
  const there = await readFile(place).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (there !== undefined && !there.equals(Buffer.from(line.content, 'base64')))
    throw new CommandError(`${place} is another key than the backup's: restore into a new data directory, or with --no-keys`);
}

async function writeKey(dataDir: string, line: BackedUpFile): Promise<void> {
  const place = placeOf(dataDir, line);
  await mkdir(dirname(place), { recursive: true, mode: 0o700 });
  await writeAtomic(place, Buffer.from(line.content, 'base64').toString('utf8'));
}
