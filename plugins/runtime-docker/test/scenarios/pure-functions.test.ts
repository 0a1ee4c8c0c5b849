import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { containerRequest } from '../../src/containers/internal/create-request.ts';
import { engineError } from '../../src/engine/engine-errors.ts';
import { featuresOf } from '../../src/engine/engine-features.ts';
import { LogFile } from '../../src/logs/log-file.ts';
import { criLine, LogCursor, LogReader, sinceOf } from '../../src/logs/log-records.ts';
import { containerMetadata, sandboxLabels, sandboxMetadata, sandboxName, splitLabels } from '../../src/engine/names-and-labels.ts';
import { FrameReader } from '../../src/logs/output-frames.ts';
import { pauseProgram } from '../../src/containers/pause-image.ts';

const frame = (stream: 1 | 2, text: string) => {
  const head = Buffer.alloc(8);
  head[0] = stream;
  head.writeUInt32BE(Buffer.byteLength(text), 4);
  return Buffer.concat([head, Buffer.from(text)]);
};
const at = (nanos: number) => `2026-01-02T03:04:05.${String(nanos).padStart(9, '0')}Z`;
const lines = (records: Iterable<Parameters<typeof criLine>[0]>) => [...records].map((one) => Buffer.concat([...criLine(one)]).toString());

describe('FrameReader', () => {
  it('yields the same output for every split of the input', () => {
    const bytes = Buffer.concat([frame(1, 'out'), frame(2, ''), frame(2, 'err')]);
    for (let size = 1; size <= bytes.length; size++) {
      const [whole, parts] = [new FrameReader(true), new FrameReader(false)];
      const seen: string[] = [];
      const joined = { stdout: '', stderr: '' };
      for (let from = 0; from < bytes.length; from += size) {
        const chunk = bytes.subarray(from, from + size);
        for (const { stream, payload } of whole.push(chunk)) seen.push(`${stream} ${payload}`);
        for (const { stream, payload } of parts.push(chunk)) joined[stream] += payload;
      }
      expect(seen).toEqual(['stdout out', 'stderr err']);
      expect(joined).toEqual({ stdout: 'out', stderr: 'err' });
    }
  });
});

describe('LogReader', () => {
  it('yields lines of a CRI log, partial ones without a newline', () => {
    const bytes = Buffer.concat([frame(1, `${at(1)} one\n`), frame(2, `${at(2)} half`), frame(1, `${at(3)} \n`)]);
    expect(lines(new LogReader(false).push(bytes))).toEqual([
      `${at(1)} stdout F one\n`,
      `${at(2)} stderr P half\n`,
      `${at(3)} stdout F \n`,
    ]);
  });

  it('splits the output of a terminal at newlines and at the maximum record size', () => {
    const long = 'x'.repeat(16 * 1024);
    const text = `${at(1)} a\r\n${at(2)} ${long}${at(3)} rest\r\n${at(4)} prompt`;
    for (const size of [1000, text.length]) {
      const reader = new LogReader(true);
      const seen: string[] = [];
      for (let from = 0; from < text.length; from += size) seen.push(...lines(reader.push(Buffer.from(text.slice(from, from + size)))));
      seen.push(...lines(reader.end()));
      expect(seen).toEqual([
        `${at(1)} stdout F a\r\n`,
        `${at(2)} stdout P ${long}\n`,
        `${at(3)} stdout F rest\r\n`,
        `${at(4)} stdout P prompt\n`,
      ]);
    }
  });

  it('LogCursor skips records that were copied before, also among records of one time', () => {
    const cursor = new LogCursor({ time: at(7), count: 2 });
    cursor.rewind();
    const record = (nanos: number) => ({ time: at(nanos), stream: 'stdout' as const, text: Buffer.from('x\n') });
    expect([6, 7, 7, 7, 8].map((nanos) => cursor.isNew(record(nanos)))).toEqual([false, false, false, true, true]);
    expect(cursor.position).toEqual({ time: at(8), count: 1 });
    expect(sinceOf({ time: at(8), count: 1 })).toBe(`${Date.parse('2026-01-02T03:04:05Z') / 1000}.000000008`);
  });
});

describe('LogFile', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'oarlock-log-'));
  });
  afterEach(() => rm(dir, { recursive: true }));

  it('returns its position and truncates an incomplete line', async () => {
    const path = join(dir, '0.log');
    await writeFile(path, `${at(1)} stdout F a\n${at(2)} stdout F b\n${at(2)} stderr F c\n${at(3)} stdo`);
    const file = await LogFile.open(path);
    expect(await file.position()).toEqual({ time: at(2), count: 2 });
    expect((await readFile(path, 'utf8')).endsWith('F c\n')).toBe(true);
    await file.close();
  });

  it('returns the position of the rotated file if it is empty', async () => {
    const path = join(dir, '0.log');
    await writeFile(`${path}.20260101-000000`, `${at(1)} stdout F a\n`);
    await writeFile(`${path}.20260102-000000`, `${at(5)} stdout F a\n`);
    const file = await LogFile.open(path);
    expect(await file.position()).toEqual({ time: at(5), count: 1 });
    await file.close();
  });
});

describe('names and labels', () => {
  it('encode metadata, labels and annotations', () => {
    const metadata = { name: 'web-0', namespace: 'shop', uid: '1-2', attempt: 3 };
    expect(sandboxMetadata(`/${sandboxName(metadata)}`)).toEqual(metadata);
    expect(containerMetadata('/k8s_main_web-0_shop_1-2_4')).toEqual({ name: 'main', attempt: 4 });
    const config = { labels: { a: 'b' }, annotations: { c: 'd' } } as unknown as Parameters<typeof sandboxLabels>[0];
    expect(splitLabels(sandboxLabels(config, '/data', 5))).toEqual({ labels: { a: 'b' }, annotations: { c: 'd' } });
  });
});

describe('engine features', () => {
  const info = {
    ServerVersion: '25.0.0',
    DockerRootDir: '/',
    CgroupDriver: 'systemd',
    DefaultRuntime: 'runc',
    Runtimes: { runc: {}, gvisor: {} },
  };

  it.each([
    ['6.1.0-18-amd64', 44, true],
    ['5.12.1', 48, true],
    ['5.11.9', 48, false],
    ['6.1.0', 43, false],
  ])('Linux %s with API 1.%i: recursive read-only mounts are %s', (KernelVersion, minor, recursiveReadOnlyMounts) => {
    const { handlers } = featuresOf({ ...info, KernelVersion }, minor);
    expect(handlers).toEqual(['', 'runc', 'gvisor'].map((name) => ({ name, recursiveReadOnlyMounts, userNamespaces: false })));
  });

  const security = { namespaces: { network: 'POD', pid: 'CONTAINER', ipc: 'POD' } } as const;
  const named = { name: 'a', namespace: 'b', uid: 'c', attempt: 0 };
  const config = {
    ...{ metadata: named, image: { image: 'busybox' }, command: [], args: [], envs: [], labels: {}, annotations: {}, logPath: '' },
    ...{ stdin: false, stdinOnce: false, tty: false, linux: { resources: {}, security } },
    mounts: [
      { hostPath: '/w', containerPath: '/w' },
      { hostPath: '/r', containerPath: '/r', readonly: true, propagation: 'HOST_TO_CONTAINER' },
      { hostPath: '/d', containerPath: '/d', readonly: true, recursiveReadOnly: true },
      { hostPath: '', containerPath: '/i', readonly: true, image: 'sha256:1', imageSubPath: 'www' },
    ],
  } as const;
  const sandbox = { metadata: named, hostname: 'a', logDirectory: '', portMappings: [], labels: {}, annotations: {}, linux: { security } };
  const of = { image: 'sha256:2', runtime: 'gvisor', labels: {}, cgroupParent: undefined, lowestOom: 0, sandboxId: 's', sandbox };

  it.each([
    [41, {}, {}],
    [44, { ReadOnlyNonRecursive: true }, { ReadOnlyForceRecursive: true }],
  ])('API 1.%i: mounts state whether read-only is recursive', async (minor, plain, recursive) => {
    const bind = (path: string, options: object, ReadOnly = true) => ({
      Type: 'bind',
      Source: path,
      Target: path,
      ReadOnly,
      BindOptions: options,
    });
    expect(await containerRequest(config, { ...of, minor })).toHaveProperty('HostConfig.Mounts', [
      bind('/w', {}, false),
      bind('/r', { Propagation: 'rslave', ...plain }),
      bind('/d', recursive),
      { Type: 'image', Source: 'sha256:1', Target: '/i', ReadOnly: true, ImageOptions: { Subpath: 'www' } },
    ]);
    expect(await containerRequest(config, { ...of, minor })).toHaveProperty('HostConfig.Runtime', 'gvisor');
  });
});

it.each([
  [409, 'Conflict. The container name "/k8s_POD" is already in use by container "ab"', 'AlreadyExists'],
  [409, 'Container ab is not running', 'FailedPrecondition'],
  [404, 'No such container: ab', 'NotFound'],
  [500, 'Head "http://127.0.0.1/v2/pulled/manifests/1": no basic auth credentials', 'PermissionDenied'],
  [500, 'manifest for 127.0.0.1/missing:1 not found: manifest unknown: not here', 'NotFound'],
  [500, 'something else', 'Internal'],
])('engineError maps status %s with message "%s" to %s', (status, message, code) => {
  expect(engineError(status, message)).toMatchObject({ code, message });
});

it.each(['x64', 'arm64'])('pauseProgram builds an executable for %s that ends with its sigaction', (architecture) => {
  const program = pauseProgram(architecture);
  expect(program.toString('latin1', 0, 4)).toBe('\x7fELF');
  expect(program.readBigUInt64LE(96)).toBe(BigInt(program.length));
  expect(program.length % 8).toBe(0);
  expect(program.readBigUInt64LE(program.length - 32)).toBe(1n);
});
