import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ProjectedDriver, type ObjectVolumeSources } from '../src/volumes/object-volumes.ts';

const pod = { metadata: { name: 'p', namespace: 'default', uid: 'u' }, spec: { containers: [{ name: 'c' }] } };
const tokens = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ serviceAccountToken: { path: `deep/${index}/token`, expirationSeconds: 600 } }));

describe('a volume of API objects whose pod goes', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'oarlock-object-volumes-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  const driver = (token: () => Promise<string>, now: () => number) =>
    new ProjectedDriver({ tokens: { token }, clock: { now } } as unknown as ObjectVolumeSources);
  const request = (count: number) => ({
    pod,
    volume: { name: 'v', projected: { sources: tokens(count) } },
    path: join(directory, 'v'),
    readOnly: false,
  });

  it('is not written when its content comes after nobody wants it any more', async () => {
    let come = (_token: string) => {};
    const content = new Promise<string>((resolve) => {
      come = resolve;
    });
    const over = new AbortController();
    const mounted = driver(() => content, Date.now).mount(request(1), { signal: over.signal });
    over.abort(new Error('the pod goes'));
    come('abc');
    await expect(mounted).rejects.toThrow('the pod goes');
    expect(existsSync(join(directory, 'v'))).toBe(false);
  });

  it('is removed when it has been written, not meanwhile', async () => {
    let begin = () => {};
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const volumes = driver(
      () => Promise.resolve('abc'),
      () => {
        begin();
        return 0;
      },
    );
    const mounted = volumes.mount(request(40), {});
    await begun;
    const path = join(directory, 'v');
    await volumes.unmount({ path });
    await expect(mounted).resolves.toEqual({ hostPath: path });
    expect(existsSync(path)).toBe(false);
  });
});
