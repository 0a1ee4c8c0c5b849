import type { KubeObject, ObjectList } from '@oarlock/api/object';
import { configMaps } from '@oarlock/api/resources';
import { expired, failure, StatusError } from '@oarlock/api/status';
import { Reflector, type ReflectorOptions } from '@oarlock/client/cache/reflector';
import { TransportError } from '@oarlock/client/http/connection';
import { silentLogger } from '@oarlock/primitives/logger';
import type { Client, ListOptions, WatchEvent, WatchOptions } from '@oarlock/spi/client';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';

const object = (name: string, resourceVersion: string | number): KubeObject => ({
  metadata: { namespace: 'd', name, uid: name, resourceVersion: String(resourceVersion) },
});
const event = (type: WatchEvent['type'], name: string, resourceVersion: number): WatchEvent => ({
  type,
  object: object(name, resourceVersion),
});
const bookmark = (resourceVersion: number, initialEnd = false): WatchEvent => ({
  type: 'BOOKMARK',
  object: {
    metadata: { resourceVersion: String(resourceVersion), ...(initialEnd && { annotations: { 'k8s.io/initial-events-end': 'true' } }) },
  },
});

/** The server's response to one call: a list, an error, or a watch of batches, pauses (ms), and an end (an error or undefined). */
type Step = { list: ObjectList } | { fail: Error } | { watch: (readonly WatchEvent[] | number | Error)[] };
const list = (resourceVersion: number, items: KubeObject[], more?: string): Step => ({
  list: { metadata: { resourceVersion: String(resourceVersion), ...(more && { continue: more }) }, items },
});
const unreachable = new StatusError(failure('ServiceUnavailable', 'connection refused').status, {
  cause: new TransportError('ConnectFailed', 'connect ECONNREFUSED'),
});
const lost = new StatusError(failure('ServiceUnavailable', 'connection lost').status, {
  cause: new TransportError('Lost', 'socket hang up'),
});
const tooLarge = failure('Timeout', 'Too large resource version: 90, current: 3', {
  causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
});
const tooManyRequests = failure('TooManyRequests', 'too many requests, please try again later');
const noStreams = failure(
  'Invalid',
  'sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled',
);

/** Runs the script against a reflector and records each call, each call of the sink and each delay. */
async function transcript(steps: Step[], options: Partial<ReflectorOptions<KubeObject>> = {}): Promise<string> {
  const clock = new FakeClock({ start: 0 });
  const lines: string[] = [];
  const record = (line: string) => lines.push(`${String(clock.now()).padStart(7)}  ${line}`);
  const abort = new AbortController();
  const script = [...steps];
  const next = (call: string): Step => {
    const step = script.shift();
    record(`-> ${call}`);
    if (step === undefined) {
      abort.abort();
      throw abort.signal.reason;
    }
    if ('fail' in step) {
      record(`<- ${step.fail.message}`);
      throw step.fail;
    }
    return step;
  };
  const client = {
    async list(_resource: unknown, options: ListOptions) {
      const { signal: _, ...rest } = options;
      const step = next(`list ${JSON.stringify(rest)}`);
      if (!('list' in step)) throw new Error('the script has no list here');
      return step.list;
    },
    async *watch(_resource: unknown, options: WatchOptions) {
      const { signal: _, ...rest } = options;
      const step = next(`watch ${JSON.stringify(rest)}`);
      if (!('watch' in step)) throw new Error('the script has no watch here');
      for (const part of step.watch) {
        if (typeof part === 'number') await clock.sleep(part);
        else if (part instanceof Error) {
          record(`<- ${part.message}`);
          throw part;
        } else yield part;
      }
      record('<- end of watch');
    },
  } as unknown as Client;
  const name = ({ metadata }: KubeObject) => `${metadata?.name ?? ''}@${metadata?.resourceVersion ?? ''}`;
  const reflector = new Reflector<KubeObject>({
    client,
    resource: configMaps,
    clock,
    random: () => 0.5,
    store: {
      async replace(items) {
        record(`   replace ${items.map(name).join(' ')}`);
      },
      async apply(events) {
        record(`   apply ${events.map(({ type, object }) => `${type} ${name(object)}`).join(', ')}`);
      },
    },
    ...options,
  });
  let ended = false;
  const run = reflector.run(abort.signal).finally(() => {
    ended = true;
  });
  run.catch(() => undefined); // awaited below, after the clock
  await clock.runUntil(() => ended, { within: 3_600_000 });
  await run;
  return `${lines.join('\n')}\n`;
}

describe('Reflector', () => {
  const golden = async (file: string, steps: Step[], options?: Partial<ReflectorOptions<KubeObject>>) =>
    expect(await transcript(steps, options)).toMatchFileSnapshot(`golden/${file}.txt`);

  it('streams the initial state, continues with changes, and resumes from the last event or bookmark', () =>
    golden('reflector-stream', [
      {
        watch: [
          [event('ADDED', 'a', 3), event('ADDED', 'b', 5)],
          [bookmark(7, true), event('MODIFIED', 'a', 8)],
          2000,
          [bookmark(12)],
          300_000,
        ],
      },
      { watch: [1500, [event('DELETED', 'b', 13)], lost] },
      { watch: [5000] },
    ]));

  it('merges changes that arrive before the end of the initial state', () =>
    golden('reflector-stream-changes', [
      {
        watch: [
          [event('ADDED', 'a', 3), event('ADDED', 'b', 5)],
          [event('MODIFIED', 'a', 6), event('DELETED', 'b', 7), event('ADDED', 'c', 8)],
          [bookmark(8, true)],
          2000,
        ],
      },
    ]));

  it('lists if the stream breaks before the end of the initial state, and streams again if the list fails too', () =>
    golden('reflector-stream-broken', [
      { watch: [[event('ADDED', 'a', 3)], lost] },
      { fail: lost },
      { watch: [[event('ADDED', 'a', 3)]] },
      list(5, [object('a', 3)]),
      { watch: [[event('ADDED', 'b', 6)], 2000] },
    ]));

  it('lists if the server answers the stream with an error event, such as a server over etcd 3.4', () =>
    golden('reflector-stream-error-event', [
      { watch: [failure('InternalError', 'Internal error occurred: RequestWatchProgress is disabled')] },
      list(7, [object('a', 3)]),
      { watch: [[event('MODIFIED', 'a', 8)], 2000, expired('too old resource version: 8 (20)')] },
      // a server may have been upgraded since: each further initial state is requested as a stream first
      { watch: [failure('InternalError', 'Internal error occurred: RequestWatchProgress is disabled')] },
      list(21, [object('a', 20)]),
      { watch: [2000] },
    ]));

  it('lists if it may list but not watch, and keeps trying to watch', () =>
    golden('reflector-stream-forbidden', [
      { fail: failure('Forbidden', 'cannot watch resource "configmaps"') },
      list(7, [object('a', 3)]),
      { fail: failure('Forbidden', 'cannot watch resource "configmaps"') },
      { watch: [[event('MODIFIED', 'a', 8)], 2000] },
    ]));

  it('retries the stream if the server limits the request rate', () =>
    golden('reflector-stream-limited', [
      { fail: failure('TooManyRequests', 'too many requests') },
      { watch: [[event('ADDED', 'a', 3), bookmark(3, true)], 2000] },
    ]));

  it('uses lists permanently if the server does not support WatchList', () =>
    golden('reflector-list', [
      { fail: noStreams },
      list(7, [object('a', 3), object('b', 5)]),
      { watch: [[event('MODIFIED', 'b', 9)], 1000, expired('too old resource version: 9 (20)')] },
      list(21, [object('a', 3)], 'page-2'),
      list(21, [object('c', 19)]),
      { watch: [1000] },
    ]));

  it('lists without pages if the continue token expires', () =>
    golden(
      'reflector-list-expired-pages',
      [
        list(7, [object('a', 3)]),
        { watch: [expired('too old resource version')] },
        list(8, [object('a', 3)], 'page-2'),
        { fail: expired('the provided continue parameter is too old') },
        list(9, [object('a', 3), object('b', 9)]),
        { watch: [1000] },
      ],
      { streamInitialList: false },
    ));

  it('lists again immediately if the watch expired, and with a backoff if that repeats', () =>
    golden('reflector-expired', [
      { watch: [[event('ADDED', 'a', 3), bookmark(7, true)], 2000, expired('too old resource version: 7 (20)')] },
      { watch: [[event('ADDED', 'a', 21), bookmark(21, true)], expired('too old resource version: 21 (30)')] },
      { watch: [[event('ADDED', 'a', 31), bookmark(31, true)], expired('too old resource version: 31 (40)')] },
      { watch: [[event('ADDED', 'a', 41), bookmark(41, true), event('MODIFIED', 'a', 42)], expired('too old resource version: 42 (50)')] },
      { watch: [[bookmark(51, true)], 2000] },
    ]));

  it('lists again if the server lost its state', () =>
    golden('reflector-server-went-back', [
      { watch: [[event('ADDED', 'a', 89), bookmark(90, true)], 2000, lost] },
      { fail: tooLarge },
      { watch: [[event('ADDED', 'z', 2), bookmark(3, true)], 2000] },
    ]));

  it('increases the backoff with each failure, up to 30 s, and resets it on events', () =>
    golden('reflector-backoff', [
      ...Array.from({ length: 8 }, (): Step => ({ fail: tooManyRequests })),
      { watch: [[bookmark(1, true)], 2000] },
      { watch: [] },
      { watch: [] },
      { watch: [[event('ADDED', 'a', 2)]] },
      { watch: [] },
      { watch: [1000] },
    ]));

  it('increases the backoff up to 2.5 s while no server can be reached', () =>
    golden('reflector-backoff-unreachable', [
      ...Array.from({ length: 8 }, (): Step => ({ fail: unreachable })),
      { watch: [[bookmark(1, true)], 2000] },
    ]));

  it('waits for a resource that the server does not have, with one log message before and after', async () => {
    const missing = () => failure('NotFound', 'the server could not find the requested resource');
    const logged: string[] = [];
    const log = {
      ...silentLogger,
      child: () => log,
      info: (_fields: object, message: string) => logged.push(message),
    } as unknown as typeof silentLogger;
    const asked: string[] = [];
    const isMissing = [true, false]; // discovery may list a resource before the server serves it
    const transcriptText = await transcript(
      [{ fail: missing() }, { fail: missing() }, { watch: [[event('ADDED', 'a', 3), bookmark(3, true)], 2000] }],
      {
        log,
        discovery: {
          isMissing: async ({ resource }) => asked.push(`lacks ${resource}`) > 0 && isMissing.shift() === true,
          whenServed: async (all) => void asked.push(`when ${all.map(({ resource }) => resource).join()}`),
        },
      },
    );
    expect(asked).toEqual(['lacks configmaps', 'when configmaps', 'lacks configmaps']);
    expect(logged).toEqual(['the server does not serve this kind; waiting until it does', 'the server serves this kind now']);
    // the store is empty until the resource is served
    expect(transcriptText.match(/ {3}replace.*/g)).toEqual(['   replace ', '   replace a@3']);
  });

  it('keeps its objects if the server stops serving the resource, and waits for it', async () => {
    const lost = failure('NotFound', 'the server could not find the requested resource');
    const log = await transcript(
      [
        { watch: [[event('ADDED', 'a', 3), bookmark(3, true)], 2000, lost] },
        { watch: [[event('ADDED', 'b', 9), bookmark(9, true)], 2000] },
      ],
      { discovery: { isMissing: async () => true, whenServed: async () => undefined } },
    );
    expect(log.match(/ {3}replace.*/g)).toEqual(['   replace a@3', '   replace b@9']);
  });

  it('rejects if its sink throws', async () => {
    const sink = { replace: () => Promise.reject(new Error('no room')), apply: () => Promise.resolve() };
    await expect(transcript([{ watch: [[bookmark(1, true)]] }], { store: sink })).rejects.toThrow('no room');
  });
});
