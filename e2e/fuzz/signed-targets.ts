import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, sign } from 'node:crypto';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { serviceAccounts } from '@oarlock/api/resources';
import authnServiceAccount from '@oarlock/authn-service-account/plugin';
import { checkBackupContent, isFile, readBackupContent, unzipped } from '@oarlock/cli/backup/backup-file';
import { configuredKeyFileName, isConfiguredKey } from '@oarlock/cli/backup/configured-keys';
import { CommandError } from '@oarlock/cli/common/command-error';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Authn, type AuthnResult } from '@oarlock/spi/authn';
import { Client } from '@oarlock/spi/client';
import { Keys } from '@oarlock/spi/cluster';
import { commitsFrame, recordBytes, readRecords } from '@oarlock/storage-embedded/commit-records';
import type { DiskFile } from '@oarlock/storage-embedded/disk';
import { frameBytes, FrameReader, headerBytes, jsonFrame, sealFrame } from '@oarlock/storage-embedded/frames';
import { entriesFrame, readEntries } from '@oarlock/storage-embedded/snapshot-file';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import fc from 'fast-check';
import type { FuzzTarget } from './engine.ts';
import { jsonValue, mutatedBytes, mutatedText } from './inputs.ts';

const target = <T>(each: FuzzTarget<T>): FuzzTarget => each as FuzzTarget;
const base64url = (text: string): string => Buffer.from(text).toString('base64url');

const clock = new FakeClock();
const issuer = 'https://kubernetes.default.svc.cluster.local';
const signingKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
const privateKey = createPrivateKey(signingKey);
const noKey = () => Promise.reject(new Error('the fuzzer issues no certificates'));
const verifyingKeys = [createPublicKey(signingKey).export({ type: 'spki', format: 'pem' }) as string];
const api = memoryApi({ clock });
api.seed(serviceAccounts, { metadata: { namespace: 'd', name: 'robot', uid: '1' } });
const [authenticator = noAuthenticator()] = new PluginHost({ clock })
  .provide(Client, api.client())
  .provide(Keys, { caBundle: '', issue: noKey, sign: noKey, serviceAccount: { issuer, signingKey, verifyingKeys } })
  .add({ plugin: authnServiceAccount })
  .get(Authn);
function noAuthenticator(): never {
  throw new Error('the authenticator was not created');
}
function authenticate(bearerToken: string): AuthnResult | Promise<AuthnResult> {
  api.requests.length = 0; // 100,000 recorded requests take more memory than the tokens that the authenticator caches
  return authenticator.authenticate({ bearerToken, headers: {}, path: '/' });
}

const jwtHead = '{"alg":"ES256"}';
const seconds = Math.floor(clock.now() / 1000);
const subject = 'system:serviceaccount:d:robot';
const claims = {
  'kubernetes.io': { namespace: 'd', serviceaccount: { name: 'robot', uid: '1' } },
  iss: issuer,
  aud: issuer,
  sub: subject,
  iat: seconds,
  exp: seconds + 36_000,
};
/** Returns a token whose signature is valid, whatever it contains. */
function signedToken(head: string, payload: string): string {
  const content = `${base64url(head)}.${base64url(payload)}`;
  return `${content}.${sign('sha256', Buffer.from(content), { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
}
const jwt = signedToken(jwtHead, JSON.stringify(claims));
const claimNames = [...Object.keys(claims), 'nbf', 'jti', '__proto__', 'kubernetes.io/serviceaccount/namespace'];
/** Tokens whose signature is valid: texts with changes, and claims of any type. */
const signedTokens = fc.oneof(
  fc
    .tuple(mutatedText(jwtHead, '{"alg":"ES256","kid":"a","typ":"JWT"}'), mutatedText(JSON.stringify(claims)))
    .map(([head, payload]) => signedToken(head, payload)),
  fc
    .array(fc.tuple(fc.constantFrom(...claimNames), jsonValue), { maxLength: 3 })
    .map((changed) => signedToken(jwtHead, JSON.stringify({ ...claims, ...Object.fromEntries(changed) }))),
  fc
    .array(fc.tuple(fc.constantFrom('namespace', 'serviceaccount', 'pod', 'node', 'secret', 'warnafter'), jsonValue), { maxLength: 3 })
    .map((changed) =>
      signedToken(jwtHead, JSON.stringify({ ...claims, 'kubernetes.io': { ...claims['kubernetes.io'], ...Object.fromEntries(changed) } })),
    ),
);

const backupHead = '{"format":"oarlock-backup","version":1,"cluster":"c","createdAt":"2026-01-01T00:00:00Z","revision":7}';
const backupLines = [
  '{"file":"pki/ca.key","content":"YQ=="}',
  '{"file":"encryption/keys/a%2Fb","content":"YQ=="}',
  '{"file":"plugins/apiserver/encryption/key-1","content":"YQ=="}',
  '{"key":"/registry/a","value":"YQ=="}',
] as const;
const backupText = [backupHead, ...backupLines, '{"entries":1,"sha256":"00"}', ''].join('\n');
/** Returns the last line of a backup that makes it valid, with other members and spaces. */
function backupEnd(content: string, more: string): string {
  const entries = content.split('\n').filter((line) => line.includes('"key"')).length;
  const sha256 = createHash('sha256').update(content).digest('hex');
  return `{${more}"entries":${entries},"sha256":"${sha256}"}\n`;
}
const backupLine = fc.oneof(
  { arbitrary: fc.constantFrom(...backupLines), weight: 3 },
  { arbitrary: mutatedText(...backupLines).map((line) => line.replaceAll('\n', '')), weight: 2 },
  {
    arbitrary: fc
      .tuple(fc.constantFrom('file', 'key'), fc.oneof(mutatedText('encryption/keys/a%2Fb', 'pki/../../x', 'pki/ca.key'), fc.string()))
      .map(([kind, name]) => JSON.stringify({ [kind]: name, [kind === 'file' ? 'content' : 'value']: 'YQ==' })),
    weight: 2,
  },
  { arbitrary: jsonValue.map((value) => JSON.stringify(value)), weight: 1 },
);
/** Contents of backups whose checksum is valid. They are not compressed, which would take most of the time. */
const sealedBackups = fc
  .tuple(
    fc.oneof({ arbitrary: fc.constant(backupHead), weight: 6 }, { arbitrary: mutatedText(backupHead, 'null'), weight: 1 }),
    fc.array(backupLine, { maxLength: 6 }),
    fc.oneof({ arbitrary: fc.constant(''), weight: 4 }, { arbitrary: fc.constantFrom(' ', '"a":1,', '"key":"a",'), weight: 1 }),
  )
  .map(([head, lines, more]) => {
    const content = [head, ...lines, ''].join('\n');
    return Buffer.from(content + backupEnd(content, more));
  });

async function readWholeBackup(bytes: Buffer): Promise<void> {
  const content = () => Readable.from([bytes]);
  await checkBackupContent(content(), 'backup');
  // what the check accepts can be read
  for await (const line of readBackupContent(content())) if (isFile(line) && isConfiguredKey(line)) configuredKeyFileName(line);
}

/** A file that consists of some bytes. */
const fileOf = (bytes: Buffer): DiskFile => {
  const readOnly = () => Promise.reject(new Error('the file is read only'));
  return {
    read: async (into, position) => bytes.copy(into, 0, position, position + into.length),
    size: async () => bytes.length,
    write: readOnly,
    truncate: readOnly,
    sync: readOnly,
    close: async () => {},
  };
};
const salt = 7;
const logHead = jsonFrame('head', { salt, after: 1 }, 0);
const record = {
  type: 'commit',
  revision: 5,
  writes: [{ key: '/registry/pods/a/b', value: Buffer.from('{}'), deadline: 0, ttlSeconds: 3 }],
} as const;
const logRecords = (() => {
  const payload = recordBytes(record);
  return commitsFrame([record], payload, salt, Buffer.alloc(payload + 64));
})();
const entries = entriesFrame([{ entry: { key: '/registry/a', value: Buffer.from('{}'), revision: 5, created: 4 } }] as never, 0, salt);
/** Returns a frame whose checksum is valid. */
function sealed(payload: Buffer, kind: 'commits' | 'entries'): Buffer {
  const frame = Buffer.alloc(frameBytes(payload.length));
  payload.copy(frame, headerBytes);
  sealFrame(frame, kind, payload.length, salt);
  return frame;
}
const sealedLogs = fc
  .array(
    fc
      .tuple(mutatedBytes(logRecords.subarray(headerBytes), entries.subarray(headerBytes)), fc.constantFrom('commits', 'entries'))
      .map(([payload, kind]) => sealed(payload, kind as 'commits' | 'entries')),
    { maxLength: 3 },
  )
  .map((frames) => Buffer.concat([logHead, ...frames]));
/** A record that ends early is found by the bounds of the buffer. */
const isDamaged = (error: unknown): boolean =>
  error instanceof RangeError || (error instanceof Error && error.message === 'a record of an unknown type');
const ignoreSyntax = (error: unknown): undefined => {
  if (error instanceof SyntaxError) return undefined;
  throw error;
};

async function readLog(bytes: Buffer): Promise<void> {
  const reader = await FrameReader.open(fileOf(bytes));
  if ((await reader.head().catch(ignoreSyntax)) === undefined) return;
  for (let frame = await reader.next(); frame !== undefined; frame = await reader.next()) {
    if (frame.kind === 2) for (const each of readRecords(frame.payload)) void each;
    if (frame.kind === 3) for (const each of readEntries(frame.payload)) void each;
  }
}

/** Parsers behind a signature or checksum: inputs with changes, and inputs that are signed after the changes. */
export const signedTargets: readonly FuzzTarget[] = [
  target({
    name: 'JWTs',
    inputs: fc.oneof(
      mutatedText(jwt),
      mutatedText('{"alg":"ES256","kid":"a"}', '{"alg":"none","crit":["b64"],"b64":false}').map(
        (head) => `${base64url(head)}.${jwt.split('.')[1]}.${jwt.split('.')[2]}`,
      ),
    ),
    async parse(token) {
      const { outcome } = await authenticate(token);
      if (outcome === 'authenticated' && token !== jwt && token.trim() !== jwt) throw new Error('an altered token was accepted');
    },
    isRejection: () => false,
  }),
  target({
    name: 'signed JWTs',
    inputs: signedTokens,
    async parse(token) {
      const result = await authenticate(token);
      if (result.outcome === 'authenticated' && result.identity.name !== subject) throw new Error('the token is of another user');
    },
    isRejection: () => false,
  }),
  target({
    name: 'backups',
    inputs: fc.oneof(
      mutatedText(backupText).map((text) => gzipSync(text)),
      mutatedBytes(gzipSync(backupText)),
    ),
    parse: (bytes) => checkBackupContent(unzipped(Readable.from([bytes])), 'backup'),
    isRejection: (error) => error instanceof CommandError,
  }),
  target({
    name: 'backups with a valid checksum',
    inputs: sealedBackups,
    parse: readWholeBackup,
    isRejection: (error) => error instanceof CommandError,
  }),
  target({
    name: 'write-ahead logs',
    inputs: mutatedBytes(Buffer.concat([logHead, logRecords]), logRecords),
    parse: readLog,
    isRejection: isDamaged,
  }),
  target({ name: 'write-ahead logs with valid checksums', inputs: sealedLogs, parse: readLog, isRejection: isDamaged }),
  target({
    name: 'records of write-ahead logs and snapshots',
    inputs: mutatedBytes(logRecords.subarray(headerBytes), entries.subarray(headerBytes)),
    parse(bytes) {
      for (const read of [readRecords, readEntries]) {
        try {
          for (const each of read(bytes)) void each;
        } catch (error) {
          if (!isDamaged(error)) throw error;
        }
      }
    },
    isRejection: () => false,
  }),
];
