import { linkSync, readFileSync, readdirSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isAbsentOrTruncated } from '@oarlock/primitives/os/file-error';
import { bootId, startTime } from '../host/process-table.ts';

interface Holder {
  readonly pid: number;
  readonly started: string;
  readonly boot: string;
}
const pattern = /^lock\.(\d+)$/;

/**
 * Takes the lock of a directory: one supervisor per directory. A process that finds the last holder dead creates the lock file of the next
 * generation, which succeeds for only one of several; the newest file is never removed. Returns false if another process holds the lock.
 */
export function takeLock(directory: string): boolean {
  const generations = readdirSync(directory)
    .map((name) => Number(pattern.exec(name)?.[1] ?? -1))
    .filter((generation) => generation >= 0)
    .sort((a, b) => a - b);
  const newest = generations.at(-1) ?? 0;
  if (newest > 0 && isAlive(readHolder(join(directory, `lock.${newest}`)))) return false;
  const holder: Holder = { pid: process.pid, started: startTime(process.pid) ?? '', boot: bootId() };
  const temporary = join(directory, `.lock-${process.pid}`);
  writeFileSync(temporary, JSON.stringify(holder), { mode: 0o600 });
  try {
    linkSync(temporary, join(directory, `lock.${newest + 1}`));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    unlinkSync(temporary);
  }
  for (const generation of generations) unlinkSync(join(directory, `lock.${generation}`));
  return true;
}

function readHolder(path: string): Holder | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Holder;
  } catch (error) {
    if (!isAbsentOrTruncated(error)) throw error;
    return undefined; // truncated by a power failure: its holder is not alive
  }
}

function isAlive(holder: Holder | undefined): boolean {
  if (!holder || holder.boot !== bootId()) return false;
  const started = startTime(holder.pid);
  return started !== undefined && (started === holder.started || holder.started === '');
}
