import { silentLogger } from '@oarlock/primitives/logger';
import { RuntimeError } from '@oarlock/spi/runtime';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CriClient } from '../../src/cri/cri-client.ts';
import { EventBroadcaster } from '../../src/events/event-broadcaster.ts';
import { ExecProcesses } from '../../src/streaming/exec-processes.ts';
import { handSource } from '../support/hand-source.ts';

const turn = () =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

describe('ExecProcesses', () => {
  let clock: FakeClock;
  let calls: { method: string; request: object }[];
  let events: ReturnType<typeof handSource>;
  let stop: AbortController;
  let running: Promise<void>;
  let execs: ExecProcesses;
  let answer: () => Promise<object>;

  beforeEach(async () => {
    clock = new FakeClock();
    calls = [];
    events = handSource();
    stop = new AbortController();
    answer = () => Promise.resolve({});
    const channel = {
      unary: (_table: string, path: string, _request: string, _response: string, request: object) => {
        calls.push({ method: path.split('/').at(-1) ?? '', request });
        return answer();
      },
    } as unknown as CriClient;
    const hub = new EventBroadcaster({
      sources: [events.source],
      clock,
      log: silentLogger,
      refresh: async () => {},
      sandboxOf: async () => undefined,
      observe: async () => 'gone',
      forget: () => {},
    });
    running = hub.run(stop.signal);
    events.send({ kind: 'live', announcesExec: true });
    await turn();
    execs = new ExecProcesses(channel, hub, { clock, log: silentLogger });
  });
  afterEach(async () => {
    stop.abort();
    await running;
  });

  const added = (execId: string, containerId = 'c') => events.send({ kind: 'execAdded', containerId, execId });
  const exited = (execId: string, exitCode: number) => events.send({ kind: 'execExited', execId, exitCode });

  it('adds processes to one container one at a time, to different containers at once', async () => {
    const began: string[] = [];
    const session = (name: string, containerId: string) =>
      execs.runSession(containerId, undefined, async () => {
        began.push(name);
        await new Promise(() => {});
      });
    void session('one', 'c');
    void session('two', 'c');
    void session('three', 'other');
    await turn();
    expect(began).toEqual(['one', 'three']);
    added('e1');
    await turn();
    expect(began).toEqual(['one', 'three', 'two']);
  });

  it('continues with the next session if one fails before its process is added', async () => {
    await expect(execs.runSession('c', undefined, () => Promise.reject(new Error('no such container')))).rejects.toThrow(
      'no such container',
    );
    expect(await execs.runSession('c', undefined, async () => 'done')).toBe('done');
  });

  it('continues with the next session if no process is announced', async () => {
    void execs.runSession('c', undefined, () => new Promise(() => {}));
    let began = false;
    void execs.runSession('c', undefined, async () => {
      began = true;
    });
    await clock.advance(9_999);
    expect(began).toBe(false);
    await clock.advance(1);
    expect(began).toBe(true);
  });

  it('continues with the next session if the event stream is lost', async () => {
    void execs.runSession('c', undefined, () => new Promise(() => {}));
    let began = false;
    void execs.runSession('c', undefined, async () => {
      began = true;
    });
    await turn();
    events.fail(new RuntimeError('Unavailable', 'gone'));
    await turn();
    expect(began).toBe(true);
  });

  it('kills the process of an aborted session, and no other', async () => {
    const abort = new AbortController();
    const session = (signal?: AbortSignal) =>
      execs.runSession(
        'c',
        signal,
        () =>
          new Promise<never>((_, reject) => {
            signal?.addEventListener('abort', () => reject(new Error('aborted')));
          }),
      );
    const first = session(abort.signal);
    await turn();
    added('e1');
    await turn();
    void session();
    await turn();
    added('e2');
    abort.abort();
    await expect(first).rejects.toThrow('aborted');
    expect(calls).toEqual([{ method: 'Kill', request: { containerId: 'c', execId: 'e1', signal: 9 } }]);
  });

  it('kills a process that is announced only after the abort', async () => {
    const abort = new AbortController();
    const session = execs.runSession(
      'c',
      abort.signal,
      () =>
        new Promise<never>((_, reject) => {
          abort.signal.addEventListener('abort', () => reject(new Error('aborted')));
        }),
    );
    const failed = session.catch((error: Error) => error.message);
    await turn();
    abort.abort();
    await turn();
    expect(calls).toEqual([]);
    added('e1');
    expect(await failed).toBe('aborted');
    expect(calls).toMatchObject([{ method: 'Kill', request: { execId: 'e1' } }]);
  });

  it('ignores processes that have already exited', async () => {
    answer = () => Promise.reject(new RuntimeError('NotFound', 'process does not exist'));
    const abort = new AbortController();
    const session = execs.runSession(
      'c',
      abort.signal,
      () =>
        new Promise<never>((_, reject) => {
          abort.signal.addEventListener('abort', () => reject(new Error('aborted')));
        }),
    );
    await turn();
    added('e1');
    await turn();
    abort.abort();
    await expect(session).rejects.toThrow('aborted');
  });

  it('ends a session whose process has exited', async () => {
    const session = execs.runSession('c', undefined, (overdue) => overdue);
    await turn();
    added('e1');
    exited('another', 1);
    exited('e1', 42);
    await turn();
    expect(calls).toEqual([]);
    await clock.advance(1_000);
    expect(await session).toBe(42);
    expect(calls).toEqual([{ method: 'DeleteProcess', request: { containerId: 'c', execId: 'e1' } }]);
  });

  it('does not end a session that ends in time', async () => {
    let finish: (code: number) => void = () => {};
    const session = execs.runSession('c', undefined, (overdue) =>
      Promise.race([
        overdue,
        new Promise<number>((resolve) => {
          finish = resolve;
        }),
      ]),
    );
    await turn();
    added('e1');
    exited('e1', 0);
    await turn();
    finish(0);
    expect(await session).toBe(0);
    await clock.advance(5_000);
    expect(calls).toEqual([]);
    expect(clock.pending).toBe(0);
  });
});
