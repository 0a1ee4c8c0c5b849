import type { KubeObject, ObjectList } from '@oarlock/api/object';
import { configMaps } from '@oarlock/api/resources';
import { expired, failure } from '@oarlock/api/status';
import { Reflector, type ReflectorOptions } from '@oarlock/client/cache/reflector';
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

/** What the server does at one call: a list, a refusal, or a watch made of batches, waits (ms), and an end (error or plain). */
type Step = { list: ObjectList } | { refuse: Error } | { watch: (readonly WatchEvent[] | number | Error)[] };
const list = (resourceVersion: number, items: KubeObject[], more?: string): Step => ({
  list: { metadata: { resourceVersion: String(resourceVersion), ...(more && { continue: more }) }, items },
});
const lost = failure('ServiceUnavailable', 'connection refused');
const tooLarge = failure('Timeout', 'Too large resource version: 90, current: 3', {
  causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
});
const noStreams = failure(
  'Invalid',
  'sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled',
);

/** Plays the script against a reflector and writes down every call, every word to the sink and every delay. */
async function transcript(steps: Step[], options: Partial<ReflectorOptions<KubeObject>> = {}): Promise<string> {
  const clock = new FakeClock({ start: 0 });
  const lines: string[] = [];
  const say = (line: string) => lines.push(`${String(clock.now()).padStart(7)}  ${line}`);
  const abort = new AbortController();
  const script = [...steps];
  const next = (call: string): Step => {
    const step = script.shift();
    say(`-> ${call}`);
    if (step === undefined) {
      abort.abort();
      throw abort.signal.reason;
    }
    if ('refuse' in step) {
      say(`<- ${step.refuse.message}`);
      throw step.refuse;
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
          say(`<- ${part.message}`);
          throw part;
        } else yield part;
      }
      say('<- end of watch');
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
        say(`   replace ${items.map(name).join(' ')}`);
      },
      async apply(events) {
        say(`   apply ${events.map(({ type, object }) => `${type} ${name(object)}`).join(', ')}`);
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

  it('streams the initial state, follows, and resumes from the last event or bookmark', () =>
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

  it('takes changes into the initial state that come before its end', () =>
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

  it('begins the stream anew when it breaks before its end', () =>
    golden('reflector-stream-broken', [
      { watch: [[event('ADDED', 'a', 3)], lost] },
      { watch: [[event('ADDED', 'a', 3)]] },
      { watch: [[event('ADDED', 'a', 3), bookmark(3, true)], 2000] },
    ]));

  it('lists where the server does not stream, for good', () =>
    golden('reflector-list', [
      { refuse: noStreams },
      list(7, [object('a', 3), object('b', 5)]),
      { watch: [[event('MODIFIED', 'b', 9)], 1000, expired('too old resource version: 9 (20)')] },
      list(21, [object('a', 3)], 'page-2'),
      list(21, [object('c', 19)]),
      { watch: [1000] },
    ]));

  it('lists all at once when pages expire', () =>
    golden(
      'reflector-list-expired-pages',
      [
        list(7, [object('a', 3)]),
        { watch: [expired('too old resource version')] },
        list(8, [object('a', 3)], 'page-2'),
        { refuse: expired('the provided continue parameter is too old') },
        list(9, [object('a', 3), object('b', 9)]),
        { watch: [1000] },
      ],
      { streamInitialList: false },
    ));

  it('reads anew at once when the watch has expired, and waits when that happens again', () =>
    golden('reflector-expired', [
      { watch: [[event('ADDED', 'a', 3), bookmark(7, true)], 2000, expired('too old resource version: 7 (20)')] },
      { watch: [[event('ADDED', 'a', 21), bookmark(21, true)], expired('too old resource version: 21 (30)')] },
      { watch: [[event('ADDED', 'a', 31), bookmark(31, true)], expired('too old resource version: 31 (40)')] },
      { watch: [[event('ADDED', 'a', 41), bookmark(41, true), event('MODIFIED', 'a', 42)], expired('too old resource version: 42 (50)')] },
      { watch: [[bookmark(51, true)], 2000] },
    ]));

  it('reads anew from a server that lost its state', () =>
    golden('reflector-server-went-back', [
      { watch: [[event('ADDED', 'a', 89), bookmark(90, true)], 2000, lost] },
      { refuse: tooLarge },
      { watch: [[event('ADDED', 'z', 2), bookmark(3, true)], 2000] },
    ]));

  it('waits longer with each failure, up to 30 s, and forgets failures when events come', () =>
    golden('reflector-backoff', [
      ...Array.from({ length: 8 }, (): Step => ({ refuse: lost })),
      { watch: [[bookmark(1, true)], 2000] },
      { watch: [] },
      { watch: [] },
      { watch: [[event('ADDED', 'a', 2)]] },
      { watch: [] },
      { watch: [1000] },
    ]));

  it('waits for a kind that the server does not have, and says so once', async () => {
    const missing = () => failure('NotFound', 'the server could not find the requested resource');
    const said: string[] = [];
    const log = {
      ...silentLogger,
      child: () => log,
      info: (_fields: object, message: string) => said.push(message),
    } as unknown as typeof silentLogger;
    const asked: string[] = [];
    const lacks = [true, false]; // discovery may be ahead of what it tells of
    const told = await transcript(
      [{ refuse: missing() }, { refuse: missing() }, { watch: [[event('ADDED', 'a', 3), bookmark(3, true)], 2000] }],
      {
        log,
        discovery: {
          isMissing: async ({ resource }) => asked.push(`lacks ${resource}`) > 0 && lacks.shift() === true,
          whenServed: async (all) => void asked.push(`when ${all.map(({ resource }) => resource).join()}`),
        },
      },
    );
    expect(asked).toEqual(['lacks configmaps', 'when configmaps', 'lacks configmaps']);
    expect(said).toEqual(['the server does not serve this kind; waiting until it does']);
    // it has no objects until it is there
    expect(told.match(/ {3}replace.*/g)).toEqual(['   replace ', '   replace a@3']);
  });

  it('keeps what it has read of a kind that the server has lost, and waits for it', async () => {
    const lost = failure('NotFound', 'the server could not find the requested resource');
    const told = await transcript(
      [
        { watch: [[event('ADDED', 'a', 3), bookmark(3, true)], 2000, lost] },
        { watch: [[event('ADDED', 'b', 9), bookmark(9, true)], 2000] },
      ],
      { discovery: { isMissing: async () => true, whenServed: async () => undefined } },
    );
    expect(told.match(/ {3}replace.*/g)).toEqual(['   replace a@3', '   replace b@9']);
  });

  it('ends with a fault of its sink', async () => {
    const sink = { replace: () => Promise.reject(new Error('no room')), apply: () => Promise.resolve() };
    await expect(transcript([{ watch: [[bookmark(1, true)]] }], { store: sink })).rejects.toThrow('no room');
  });
});
