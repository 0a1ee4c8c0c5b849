import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { loaderFlags, programPath } from '@oarlock/primitives/os/bundled-program';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EmbeddedStorage } from '../../src/embedded-storage.ts';
import { makeDirectory } from '../support/directory.ts';
import { reported, type WriterMessage } from '../support/expected-writes.ts';

const kills = Number(process.env['OARLOCK_ROUNDS'] ?? 10);
const program = fileURLToPath(new URL('../support/writing-process.mjs', import.meta.url));
const root = fileURLToPath(new URL('../../../..', import.meta.url));

describe('kill -9 during writes, with a watch that resumes', () => {
  let directory: Awaited<ReturnType<typeof makeDirectory>>;
  beforeAll(async () => {
    directory = await makeDirectory();
  });
  afterAll(() => directory.remove());

  /** The acknowledged values, by revision. */
  const acknowledged = new Map<number, string>();
  const seen = new Map<number, Map<string, string | null>>();
  const standing = new Map<string, { readonly revision: number; readonly value: string | null }>();
  const faults: string[] = [];
  let position = 0;

  function take(message: WriterMessage): void {
    for (const [revision, value] of message.acknowledged ?? []) acknowledged.set(revision, value);
    for (const { key, revision, previous, value } of (message.seen ?? []).map(reported)) {
      if (revision <= position) faults.push(`${key} at ${revision} came again after ${position}`);
      const known = standing.get(key);
      if ((known?.value == null ? 0 : known.revision) !== previous)
        faults.push(`${key} at ${revision} follows on ${previous}; seen before: ${known?.revision ?? 0}`);
      standing.set(key, { revision, value });
      seen.set(revision, (seen.get(revision) ?? new Map()).set(key, value));
    }
    position = message.position ?? position;
  }

  /** Runs the process once; resolves when it was killed during its writes. */
  async function live(round: number): Promise<void> {
    const child = fork(program, [directory.path, String(round), String(position)], {
      execArgv: loaderFlags(programPath('@oarlock/storage-embedded/embedded-storage', import.meta.url)),
      // values are bytes
      serialization: 'advanced',
      cwd: root,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    let messages = 0;
    // the number of messages after which the process is killed, whatever it does at that moment
    const last = 50 + ((round * 7919) % 1_500);
    await new Promise<void>((resolve, reject) => {
      child.on('message', (message: WriterMessage) => {
        take(message);
        messages += 1;
        if (messages === last) child.kill('SIGKILL');
      });
      child.once('error', reject);
      // after all of its messages
      child.once('close', (code, signal) => {
        if (signal === 'SIGKILL') resolve();
        else reject(new Error(`the process ended by itself: ${code ?? signal}`));
      });
    });
  }

  it(`loses no acknowledged commit, and neither misses nor repeats an event, ${kills} times`, {
    timeout: 120_000 + kills * 10_000,
  }, async () => {
    for (let round = 0; round < kills; round += 1) await live(round);

    const storage = new EmbeddedStorage({ directory: directory.path });
    await storage.start();
    const abort = new AbortController();
    const newest = await storage.requestProgress();
    for await (const { changes, revision } of storage.watch('/', { after: position, signal: abort.signal })) {
      take({
        seen: changes,
        position: revision,
      });
      if (revision >= newest) break;
    }
    const { entries } = await storage.range({ prefix: '/' });
    await storage.stop();

    expect(faults).toEqual([]);
    expect(acknowledged.size).toBeGreaterThan(kills * 20);
    const lost = [...acknowledged].filter(([revision, value]) => {
      const commit = seen.get(revision);
      return commit === undefined || commit.size > 2 || ![...commit].some(([key, is]) => key.startsWith('/right/') && is === value);
    });
    expect(lost).toEqual([]);
    // the watch received the stored revisions
    expect(new Map(entries.map((entry) => [entry.key, entry.revision]))).toEqual(
      new Map([...standing].filter(([, { value }]) => value !== null).map(([key, { revision }]) => [key, revision])),
    );
    // only complete commits, and each revision once
    expect(seen.size).toBe(newest);
  });
});
