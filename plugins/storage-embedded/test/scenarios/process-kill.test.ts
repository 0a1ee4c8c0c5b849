import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EmbeddedStorage } from '../../src/embedded-storage.ts';
import { makeDirectory } from '../support/directory.ts';
import { told, type Told } from '../support/expected-writes.ts';

const rounds = Number(process.env['OARLOCK_ROUNDS'] ?? 10);
const program = fileURLToPath(new URL('../support/writing-process.ts', import.meta.url));
const root = fileURLToPath(new URL('../../../..', import.meta.url));

describe('kill -9 under writers and a watch that goes on from where it was', () => {
  let directory: Awaited<ReturnType<typeof makeDirectory>>;
  beforeAll(async () => {
    directory = await makeDirectory();
  });
  afterAll(() => directory.remove());

  /** Everything that was ever said, by revision. */
  const acknowledged = new Map<number, string>();
  const seen = new Map<number, Map<string, string | null>>();
  const standing = new Map<string, { readonly revision: number; readonly value: string | null }>();
  const faults: string[] = [];
  let position = 0;

  function take(message: Told): void {
    for (const [revision, value] of message.acknowledged ?? []) acknowledged.set(revision, value);
    for (const { key, revision, previous, value } of message.seen ?? []) {
      if (revision <= position) faults.push(`${key} at ${revision} came again after ${position}`);
      const known = standing.get(key);
      if ((known?.value == null ? 0 : known.revision) !== previous)
        faults.push(`${key} at ${revision} follows on ${previous}; seen before: ${known?.revision ?? 0}`);
      standing.set(key, { revision, value });
      seen.set(revision, (seen.get(revision) ?? new Map()).set(key, value));
    }
    position = message.position ?? position;
  }

  /** One life of the process: resolves when it was killed, a while after it began to write. */
  async function live(round: number): Promise<void> {
    const child = fork(program, [directory.path, String(round), String(position)], {
      execArgv: ['--conditions=@oarlock/source', '--import', '@oxc-node/core/register'],
      cwd: root,
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    let messages = 0;
    // whatever it is doing after so many messages, it is killed in the middle of it
    const last = 50 + ((round * 7919) % 1_500);
    await new Promise<void>((resolve, reject) => {
      child.on('message', (message: Told) => {
        take(message);
        messages += 1;
        if (messages === last) child.kill('SIGKILL');
      });
      child.once('error', reject);
      // after everything that it had said
      child.once('close', (code, signal) => {
        if (signal === 'SIGKILL') resolve();
        else reject(new Error(`the process ended by itself: ${code ?? signal}`));
      });
    });
  }

  it(`loses nothing that was acknowledged, and no event is missed or doubled, ${rounds} times`, {
    timeout: 120_000 + rounds * 10_000,
  }, async () => {
    for (let round = 0; round < rounds; round += 1) await live(round);

    const storage = new EmbeddedStorage({ directory: directory.path });
    await storage.start();
    const abort = new AbortController();
    const newest = await storage.requestProgress();
    for await (const { changes, revision } of storage.watch('/', { after: position, signal: abort.signal })) {
      take({
        seen: changes.map(told),
        position: revision,
      });
      if (revision >= newest) break;
    }
    const { entries } = await storage.range({ prefix: '/' });
    await storage.stop();

    expect(faults).toEqual([]);
    expect(acknowledged.size).toBeGreaterThan(rounds * 20);
    const lost = [...acknowledged].filter(([revision, value]) => {
      const commit = seen.get(revision);
      return commit === undefined || commit.size > 2 || ![...commit].some(([key, is]) => key.startsWith('/right/') && is === value);
    });
    expect(lost).toEqual([]);
    // what stands is what the watch was told
    expect(new Map(entries.map((entry) => [entry.key, entry.revision]))).toEqual(
      new Map([...standing].filter(([, { value }]) => value !== null).map(([key, { revision }]) => [key, revision])),
    );
    // nothing but whole commits, and no revision twice
    expect(seen.size).toBe(newest);
  });
});
