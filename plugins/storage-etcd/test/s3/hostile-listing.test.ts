import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { S3Bucket } from '../../src/s3/s3-bucket.ts';
import { keys } from '../support/s3-server.ts';

let directory: string;
let server: Server;
let requests = 0;
let pageOf: (page: number) => string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'oarlock-s3-'));
  const { accessKeyId, secretAccessKey } = keys;
  const text = `[default]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key = ${secretAccessKey}\n`;
  await writeFile(join(directory, 'credentials'), text, { mode: 0o600 });
  requests = 0;
  server = createServer((_request, response) => response.end(pageOf(requests++)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterEach(async () => {
  server.closeAllConnections();
  server.close();
  await rm(directory, { recursive: true, force: true });
});

const list = () =>
  new S3Bucket(
    {
      endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      bucket: 'backups',
      region: 'eu-central-1',
      profile: 'default',
      virtualHost: false,
      credentialsFile: join(directory, 'credentials'),
    },
    { clock: new FakeClock() },
  ).list('a/', new AbortController().signal);
const page = (token: string, content: string) =>
  `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>${token}</NextContinuationToken>${content}</ListBucketResult>`;
const object = (key: string) => `<Contents><Key>${key}</Key><Size>1</Size></Contents>`;
const objects = Array.from({ length: 1000 }, (_, at) => object(`a/${at}`)).join('');

it.each([
  { store: 'objects without end', pages: (at: number) => page(`${at}`, objects), message: 'more than 100000 objects', most: 101 },
  { store: 'empty pages without end', pages: (at: number) => page(`${at}`, ''), message: 'more than 1000 pages', most: 1000 },
  {
    store: 'large pages without end',
    pages: (at: number) => page(`${at}`, ' '.repeat(4_000_000)),
    message: 'more than 67108864 bytes',
    most: 17,
  },
  { store: 'one page again and again', pages: () => page('1', objects), message: 'repeats a page', most: 2 },
  { store: 'a long key', pages: () => page('1', object('x'.repeat(1025))), message: 'a key of more than 1024 bytes', most: 1 },
  { store: 'a key that is not encoded', pages: () => page('1', object('%zz')), message: 'not URL-encoded', most: 1 },
])('a list ends with an error if the store has $store', async ({ pages, message, most }) => {
  pageOf = pages;
  await expect(list()).rejects.toMatchObject({ name: 'S3Error', code: 'Rejected', message: expect.stringContaining(message) as string });
  expect(requests).toBe(most);
});
