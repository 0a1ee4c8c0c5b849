import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Audit, type AuditEvent } from '@oarlock/spi/audit';
import { auditContract, auditEvent } from '@oarlock/spi/audit/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, describe, expect, it } from 'vitest';
import { EventWriter } from '../src/event-writer.ts';
import plugin from '../src/plugin.ts';

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

async function open(config: object = {}, folder?: string) {
  const directory = folder ?? (await mkdtemp(join(tmpdir(), 'audit-log-')));
  folders.push(directory);
  const path = join(directory, 'log', 'audit.log');
  const clock = new FakeClock();
  const host = new PluginHost({ clock }).add({ plugin, config: { path, ...config } });
  await host.start();
  const [sink] = host.get(Audit);
  if (sink === undefined) throw new Error('not created');
  const read = async (file = path) => (await readFile(file, 'utf8')).split('\n').filter((line) => line !== '');
  const counted = async (name: string) => (await host.plugins[0]?.metrics.getSingleMetric(name)?.get())?.values[0]?.value ?? 0;
  const dropped = async () => {
    const count = await counted('audit_log_dropped_total');
    expect(await counted('apiserver_audit_error_total')).toBe(count);
    return count;
  };
  return { sink, path, directory, clock, host, read, dropped };
}

auditContract('audit-log', async () => {
  const { sink, host, read, dropped, directory } = await open({ mode: 'batch', bufferSize: 500, batchMaxWaitMs: 0 });
  let recorded = 0;
  return {
    sink: {
      record(event) {
        recorded += 1;
        return sink.record(event);
      },
    },
    capacity: 500,
    dropped,
    async storedEvents() {
      await expect.poll(async () => (await read()).length + (await dropped())).toBe(recorded);
      return (await read()).map((line) => JSON.parse(line) as AuditEvent);
    },
    stop: () => host.stop(),
    async dispose() {
      await host.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
});

auditContract('the writer of audit-log', () => {
  const kept: AuditEvent[] = [];
  let gate: Promise<void> | undefined;
  let release = () => {};
  let lost = 0;
  const writer = new EventWriter({
    mode: 'batch',
    bufferSize: 100,
    onLost: (events) => {
      lost += events;
    },
    async append(lines) {
      const text = Buffer.from(lines).toString();
      await gate;
      for (const line of text.trimEnd().split('\n')) kept.push(JSON.parse(line) as AuditEvent);
    },
  });
  writer.open();
  const untilFlushed = async () => {
    for (let before = -1; before !== kept.length; await new Promise((resolve) => setImmediate(resolve))) before = kept.length;
    return kept;
  };
  return {
    sink: writer,
    capacity: 100,
    dropped: () => lost,
    storedEvents: untilFlushed,
    stop: () => writer.stop(),
    stall: () => {
      gate = new Promise((resolve) => {
        release = resolve;
      });
    },
    resume: () => {
      gate = undefined;
      release();
    },
  };
});

describe('the file', () => {
  it('has mode 0600, also if it existed before', async () => {
    const first = await open();
    expect((await stat(first.path)).mode & 0o777).toBe(0o600);
    await first.host.stop();
    await chmod(first.path, 0o644);
    const second = await open({}, first.directory);
    expect((await stat(second.path)).mode & 0o777).toBe(0o600);
    await second.host.stop();
  });

  it('contains lines of audit.k8s.io/v1, and is appended to after a restart', async () => {
    const first = await open();
    await first.sink.record(auditEvent(1));
    await first.host.stop();
    const second = await open({}, first.directory);
    await second.sink.record(auditEvent(2));
    const lines = await second.read();
    expect(lines.map((line) => JSON.parse(line))).toEqual([auditEvent(1), auditEvent(2)]);
    await second.host.stop();
  });

  it('keeps all digits of 64-bit integers', async () => {
    const { sink, host, read } = await open();
    await sink.record({ ...auditEvent(1), requestObject: { spec: { size: 9_007_199_254_740_993n } } as never });
    await host.stop();
    expect((await read())[0]).toContain('"requestObject":{"spec":{"size":9007199254740993}}');
  });

  it('is rotated at maxSize, with maxBackups and maxAge', async () => {
    const { sink, host, directory, clock } = await open({ maxSizeMegabytes: 0.001, maxBackups: 2, maxAgeDays: 1 });
    const files = async () => (await readdir(join(directory, 'log'))).sort();
    await writeFile(join(directory, 'log', 'audit-notes.log'), 'mine');
    for (let id = 0; id < 8; id++) await sink.record(auditEvent(id));
    const full = await files();
    expect(full.filter((name) => name.startsWith('audit-'))).toHaveLength(3);
    expect(full).toContain('audit-notes.log');
    for (const name of full)
      expect((await stat(join(directory, 'log', name))).mode & 0o077, name).toBe(name === 'audit-notes.log' ? 0o044 : 0);
    await clock.advance(2 * 86_400_000);
    for (let id = 8; id < 10; id++) await sink.record(auditEvent(id));
    const kept = (await files()).filter((name) => /^audit-\d/.test(name));
    expect(kept.length).toBeGreaterThan(0);
    const today = new Date(clock.now()).toISOString().slice(0, 10);
    for (const name of kept) expect(name).toContain(today); // files from two days ago were deleted
    await host.stop();
  });

  it('is compressed after rotation if compress is set', async () => {
    const { sink, host, directory } = await open({ maxSizeMegabytes: 0.001, compress: true });
    for (let id = 0; id < 3; id++) await sink.record(auditEvent(id));
    await host.stop();
    const [backup] = (await readdir(join(directory, 'log'))).filter((name) => name.endsWith('.gz'));
    const text = gunzipSync(await readFile(join(directory, 'log', backup ?? ''))).toString();
    expect((JSON.parse(text.split('\n', 1)[0] ?? '') as AuditEvent).auditID).toBe(auditEvent(0).auditID);
  });
});

describe('modes', () => {
  it('batch: a write waits for further events, and ends early when it has many or the plugin stops', async () => {
    const clock = new FakeClock();
    const writes: number[] = [];
    const writer = new EventWriter({
      mode: 'batch',
      bufferSize: 5000,
      batchMaxWaitMs: 100,
      clock,
      append: async (lines) => {
        writes.push(Buffer.from(lines).toString().trimEnd().split('\n').length);
      },
      onLost: () => {},
    });
    writer.open();
    const settle = () => new Promise((resolve) => setImmediate(resolve));
    for (let id = 0; id < 3; id += 1) void writer.record(auditEvent(id));
    await settle();
    expect(writes).toEqual([]);
    await clock.advance(100);
    expect(writes).toEqual([3]);
    for (let id = 0; id < 1000; id += 1) void writer.record(auditEvent(id));
    await settle();
    expect(writes).toEqual([3, 1000]);
    void writer.record(auditEvent(1));
    await writer.stop();
    expect(writes).toEqual([3, 1000, 1]);
    expect(clock.pending).toBe(0);
  });

  const broken = (mode: 'blocking' | 'blocking-strict') => {
    let lost = 0;
    const writer = new EventWriter({
      mode,
      bufferSize: 1,
      append: () => Promise.reject(new Error('no space left on device')),
      onLost: (events) => {
        lost += events;
      },
    });
    writer.open();
    return { writer, lost: () => lost };
  };

  it('blocking: requests wait until their events are written, and do not fail with the write', async () => {
    const { sink, host, read } = await open();
    await Promise.all(Array.from({ length: 300 }, (_, id) => sink.record(auditEvent(id))));
    expect(await read()).toHaveLength(300);
    await host.stop();
    const { writer, lost } = broken('blocking');
    await expect(writer.record(auditEvent(1))).resolves.toBeUndefined();
    expect(lost()).toBe(1);
  });

  it('blocking-strict: a failed write fails the waiting requests', async () => {
    const { writer, lost } = broken('blocking-strict');
    await expect(writer.record(auditEvent(1))).rejects.toThrow('no space left');
    expect(lost()).toBe(1);
    await writer.stop();
  });
});
