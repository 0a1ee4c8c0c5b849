import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { RemoteSnapshots } from '../../src/managed/remote-snapshots.ts';
import { S3Bucket } from '../../src/s3/s3-bucket.ts';
import { keys, S3Server } from '../support/s3-server.ts';

const { signal } = new AbortController();
const content = Buffer.from('the database of a member');
const snapshot = Buffer.concat([content, createHash('sha256').update(content).digest()]);
let directory: string;
let clock: FakeClock;
let server: S3Server;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'oarlock-remote-'));
  clock = new FakeClock({ start: Date.UTC(2026, 0, 1) });
  server = await new S3Server(() => clock.now()).start();
  await writeFile(join(directory, 'file'), snapshot);
  await writeFile(
    join(directory, 'keys'),
    `[default]\naws_access_key_id=${keys.accessKeyId}\naws_secret_access_key=${keys.secretAccessKey}\n`,
    { mode: 0o600 },
  );
});
afterEach(async () => {
  await server.stop();
  await rm(directory, { recursive: true, force: true });
});

function snapshotsOf(name: string, retention = 2): RemoteSnapshots {
  const settings = { endpoint: server.endpoint, bucket: server.bucket, region: 'r', profile: 'default', virtualHost: false };
  const bucket = new S3Bucket({ ...settings, credentialsFile: join(directory, 'keys') }, { clock });
  return new RemoteSnapshots({ bucket, folder: 'clusters/a', server: name, retention });
}
const saveAs = async (remote: RemoteSnapshots, name: string) => {
  await clock.advance(1000);
  await remote.save({ name, path: join(directory, 'file') }, signal);
};

it('keeps the newest scheduled snapshots of each server, and all others', async () => {
  const [a, ab] = [snapshotsOf('a'), snapshotsOf('a-b')];
  server.objects.set('clusters/a/a/deep/er', { body: content, modifiedAt: new Date(0) });
  await saveAs(ab, 'etcd-snapshot-a-b-1');
  await saveAs(a, 'mine');
  for (const n of [9, 10, 11]) await saveAs(a, `etcd-snapshot-a-${n}`);
  const listed = (await a.list(signal)).map(({ server: owner, name }) => `${owner}/${name}`);
  expect(listed).toEqual(['a-b/etcd-snapshot-a-b-1', 'a/mine', 'a/etcd-snapshot-a-10', 'a/etcd-snapshot-a-11']);
  expect([await a.has('mine', signal), await ab.has('mine', signal)]).toEqual([true, false]);
});

it('downloads a snapshot of any server, and verifies it', async () => {
  await saveAs(snapshotsOf('a'), 'one');
  const path = join(directory, 'new', 'one');
  await snapshotsOf('b').download('one', path, signal);
  expect(await readFile(path)).toEqual(snapshot);
  await saveAs(snapshotsOf('b'), 'one');
  await expect(snapshotsOf('c').download('one', path, signal)).rejects.toThrow(
    'several servers have a snapshot one: name one of a/one, b/one',
  );
  await snapshotsOf('c').download('b/one', path, signal);
  await expect(snapshotsOf('c').download('two', path, signal)).rejects.toThrow('there is no snapshot two in s3://backups/clusters/a/');
  server.objects.set('clusters/a/a/broken', { body: snapshot.subarray(1), modifiedAt: new Date(clock.now()) });
  await expect(snapshotsOf('a').download('broken', join(directory, 'new', 'broken'), signal)).rejects.toThrow('its digest does not match');
  expect(await readdir(join(directory, 'new'))).toEqual(['one']);
});
