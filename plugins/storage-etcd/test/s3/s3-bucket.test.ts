import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readCredentials } from '../../src/s3/credentials-file.ts';
import { S3Bucket } from '../../src/s3/s3-bucket.ts';
import { keys, S3Server } from '../support/s3-server.ts';

const { signal } = new AbortController();
let directory: string;
let clock: FakeClock;
let server: S3Server;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'oarlock-s3-'));
  clock = new FakeClock({ start: Date.UTC(2026, 0, 1) });
  server = await new S3Server(() => clock.now()).start();
  await writeKeys(keys);
});
afterEach(async () => {
  await server.stop();
  await rm(directory, { recursive: true, force: true });
});

const credentialsFile = () => join(directory, 'credentials');
const writeKeys = ({ accessKeyId, secretAccessKey }: typeof keys) =>
  writeFile(
    credentialsFile(),
    `# of the backups\n[other]\naws_access_key_id = X\n[default]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key=${secretAccessKey}\n`,
    { mode: 0o600 },
  );
const bucketOf = (changes: { readonly bucket?: string } = {}, partBytes = 1000) =>
  new S3Bucket(
    {
      ...{ endpoint: server.endpoint, bucket: server.bucket, region: 'eu-central-1', profile: 'default', virtualHost: false },
      credentialsFile: credentialsFile(),
      ...changes,
    },
    { clock, partBytes },
  );
const fileOf = async (content: Buffer) => {
  const path = join(directory, 'file');
  await writeFile(path, content);
  return path;
};
const contentOf = async (bucket: S3Bucket, key: string) => {
  const chunks: Buffer[] = [];
  for await (const chunk of bucket.download(key, signal)) chunks.push(chunk);
  return Buffer.concat(chunks);
};
/** Advances the clock while the work waits for its next attempt. */
async function withRetries<T>(work: Promise<T>): Promise<T> {
  let isDone = false;
  const done = work.finally(() => {
    isDone = true;
  });
  done.catch(() => undefined); // the caller receives the rejection
  while (!isDone) {
    await clock.advance(1000);
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
  return done;
}

describe('a bucket', () => {
  it.each([
    ['an empty file', 0, 1],
    ['a file of one part', 1000, 1],
    ['a file of several parts', 2500, 5],
  ])('has the content of %s after the upload', async (_, size, requests) => {
    const content = Buffer.alloc(size, 'oar');
    await bucketOf().upload("folder/server a/name (1)'+", await fileOf(content), signal);
    expect(server.requests).toHaveLength(requests);
    expect(server.openUploads).toBe(0);
    expect(await contentOf(bucketOf(), "folder/server a/name (1)'+")).toEqual(content);
  });

  it('lists all pages below a prefix, and deletes objects', async () => {
    server.pageSize = 2;
    const path = await fileOf(Buffer.from('x'));
    for (const key of ['a/1', 'a/2 +&', 'a/3', 'a/4', 'b/1']) await bucketOf().upload(key, path, signal);
    await bucketOf().remove('a/3', signal);
    await bucketOf().remove('a/3', signal);
    const listed = await bucketOf().list('a/', signal);
    expect(listed).toEqual(['a/1', 'a/2 +&', 'a/4'].map((key) => ({ key, bytes: 1, modifiedAt: new Date(clock.now()).toISOString() })));
  });

  it('repeats requests after failures that may pass, and no others', async () => {
    server.failures.push(503, 500, 429);
    await withRetries(bucketOf().upload('key', await fileOf(Buffer.from('x')), signal));
    expect(server.requests).toHaveLength(4);
    await expect(contentOf(bucketOf(), 'absent')).rejects.toMatchObject({ code: 'NotFound' });
    await expect(bucketOf({ bucket: 'other' }).list('', signal)).rejects.toMatchObject({ code: 'NotFound' });
    expect(server.requests).toHaveLength(6);
  });

  it('has no parts of an upload that failed', async () => {
    server.failures.push(undefined, undefined, 400);
    await expect(bucketOf().upload('key', await fileOf(Buffer.alloc(2500)), signal)).rejects.toMatchObject({ code: 'Rejected' });
    expect(server.requests.map((line) => line.split(' ')[0])).toEqual(['POST', 'PUT', 'PUT', 'DELETE']);
    expect(server.objects.size).toBe(0);
    expect(server.openUploads).toBe(0);
  });

  it('uses changed keys at once, and reports why a request was denied without a key', async () => {
    await writeKeys({ ...keys, secretAccessKey: 'a wrong secret' });
    const denied = await bucketOf()
      .list('', signal)
      .catch((error: Error) => error);
    expect(denied).toMatchObject({ code: 'Denied' });
    expect(String(denied)).toContain('SignatureDoesNotMatch');
    expect(JSON.stringify(denied) + String(denied)).not.toContain('a wrong secret');
    await writeKeys(keys);
    expect(await bucketOf().list('', signal)).toEqual([]);
  });

  it('reports a clock that differs from that of the store', async () => {
    const ahead = new FakeClock({ start: clock.now() + 3_600_000 });
    const bucket = new S3Bucket(
      {
        ...{ endpoint: server.endpoint, bucket: server.bucket, region: 'r', profile: 'default', virtualHost: false },
        credentialsFile: credentialsFile(),
      },
      { clock: ahead },
    );
    await expect(bucket.list('', signal)).rejects.toThrow('RequestTimeTooSkewed');
  });
});

describe('a file of credentials', () => {
  it('must not be readable by every user', async () => {
    await chmod(credentialsFile(), 0o644);
    await expect(readCredentials(credentialsFile())).rejects.toThrow('every user may read');
  });

  it('must have both keys in the section', async () => {
    await expect(readCredentials(credentialsFile(), 'absent')).rejects.toThrow('has no section [absent]');
    await expect(readCredentials(credentialsFile(), 'other')).rejects.toThrow('has no aws_secret_access_key in the section [other]');
  });
});
