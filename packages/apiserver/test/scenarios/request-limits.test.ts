import { connect } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '@oarlock/primitives/clock';
import { PriorityAndFairness } from '../../src/flowcontrol/priority-and-fairness.ts';
import { mandatoryFlowSchemas } from '../../src/flowcontrol/bootstrap-configuration.ts';
import { InFlightCounter } from '../../src/handler-chain/in-flight-counter.ts';
import { configMap, encoded } from '../support/fake-pipeline.ts';
import { startServer, type ServerSettings, type TestServer } from '../support/start-server.ts';

const maps = '/api/v1/namespaces/default/configmaps';
const json = { 'content-type': 'application/json' };
let server: TestServer;
const start = async (settings: ServerSettings = {}) => {
  server = await startServer(settings);
};
afterEach(() => server.stop());

describe.each(['http1', 'http2'] as const)('a request over %s', (protocol) => {
  it('is rejected if its body is too large, with or without a declared length', async () => {
    await start();
    server.pipeline.object(configMap('a'), 201);
    const body = Buffer.alloc(3 * 1024 * 1024 + 1, 0x20);
    const answer = await server[protocol]('POST', maps, { headers: json, body });
    expect(answer.json()).toMatchObject({
      code: 413,
      reason: 'RequestEntityTooLarge',
      message: 'Request entity too large: limit is 3145728',
    });
    const exact = Buffer.alloc(3 * 1024 * 1024, 0x20);
    exact.write(JSON.stringify({ kind: 'ConfigMap', apiVersion: 'v1', metadata: { name: 'a' } }));
    expect((await server[protocol]('POST', maps, { headers: json, body: exact })).code).toBe(201);
    expect((await server[protocol]('GET', `${maps}/a`)).code).toBe(201);
  });

  it('is rejected if its target is too long, but may have long headers', async () => {
    await start();
    expect((await server[protocol]('GET', `${maps}?labelSelector=${'a'.repeat(33_000)}`)).code).toBe(414);
    server.pipeline.object(configMap('a'));
    expect((await server[protocol]('GET', `${maps}/a`, { headers: { 'x-long': 'y'.repeat(30_000) } })).code).toBe(200);
  });

  it('is answered 504 at its timeout, although the pipeline continues', async () => {
    await start({ requestTimeoutMs: 50 });
    let signal: AbortSignal | undefined;
    let release: () => void = () => undefined;
    server.pipeline.answer = (request) => {
      signal = request.signal;
      return new Promise((_, reject) => {
        release = () => {
          reject(new Error('late'));
        };
      });
    };
    const answer = await server[protocol]('GET', `${maps}/a`);
    expect(answer.json()).toMatchObject({ code: 504, reason: 'Timeout', message: 'request did not complete within the allotted timeout' });
    expect(signal?.aborted).toBe(true);
    release();
  });

  it('may have a shorter timeout', async () => {
    await start();
    server.pipeline.answer = ({ signal }) =>
      new Promise((_, reject) => {
        signal?.addEventListener('abort', () => {
          reject(signal.reason);
        });
      });
    expect((await server[protocol]('GET', `${maps}/a?timeout=20ms`)).code).toBe(504);
    expect((await server[protocol]('GET', `${maps}/a?timeout=soon`)).json()).toMatchObject({
      code: 400,
      message: expect.stringContaining('invalid timeout specified in the request URL') as string,
    });
  });

  it('has no timeout if it is a watch or a log', async () => {
    await start({ requestTimeoutMs: 30 });
    server.pipeline.watch(async function* () {
      // runs four times as long as the request timeout
      await new Promise<void>((resolve) => {
        setTimeout(resolve, 120);
      });
      yield [];
    });
    expect((await server[protocol]('GET', `${maps}?watch=1`)).code).toBe(200);
  });

  it('has its FlowSchema and priority level in the response', async () => {
    const fairness = new PriorityAndFairness(10, 1_000, systemClock);
    const rules = mandatoryFlowSchemas.flatMap(({ spec }) => spec?.rules ?? []);
    fairness.configure(
      [{ metadata: { name: 'all', uid: 'f-1' }, spec: { matchingPrecedence: 5, priorityLevelConfiguration: { name: 'l' }, rules } }],
      [{ metadata: { name: 'l', uid: 'l-1' }, spec: { type: 'Limited', limited: { limitResponse: { type: 'Reject' } } } }],
    );
    await start({ fairness });
    server.pipeline.object(configMap('a'));
    for (const path of [`${maps}/a`, '/version'])
      expect((await server[protocol]('GET', path)).headers).toMatchObject({
        'x-kubernetes-pf-flowschema-uid': 'f-1',
        'x-kubernetes-pf-prioritylevel-uid': 'l-1',
      });
  });

  it('is rejected if the queue is full', async () => {
    const inFlight = new InFlightCounter();
    const fairness = new PriorityAndFairness(2, 60_000, systemClock);
    const limits = { type: 'Queue', queuing: { queues: 1, handSize: 1, queueLengthLimit: 1 } };
    const allSubjects = mandatoryFlowSchemas.map(({ spec }) => spec?.rules ?? []).flat();
    fairness.configure(
      [{ metadata: { name: 'all' }, spec: { matchingPrecedence: 10, priorityLevelConfiguration: { name: 'two' }, rules: allSubjects } }],
      [{ metadata: { name: 'two' }, spec: { type: 'Limited', limited: { nominalConcurrencyShares: 5, limitResponse: limits } } }],
    );
    for (const level of fairness.levels) if (level.name === 'two') level.setCurrentLimit(2);
    const waiting = () => [...fairness.counts].reduce((sum, { queued }) => sum + queued, 0);
    await start({ fairness, inFlight });
    const release: (() => void)[] = [];
    server.pipeline.answer = () =>
      new Promise((resolve) => {
        release.push(() => {
          resolve({ kind: 'object', code: 200, item: encoded(configMap('a')), warnings: [] });
        });
      });
    const responses = [1, 2, 3].map(() => server[protocol]('GET', `${maps}/a`));
    await expect.poll(() => [release.length, waiting()]).toEqual([2, 1]);
    const rejected = await server[protocol]('GET', `${maps}/a`);
    expect(rejected.json()).toMatchObject({ code: 429, reason: 'TooManyRequests' });
    expect(rejected.headers['retry-after']).toBe('1');
    expect([...fairness.counts].flatMap(({ rejected }) => [...rejected])).toEqual([['queue-full', 1]]);
    for (const complete of release.splice(0)) complete();
    await expect.poll(() => release.length).toBe(1);
    release[0]?.();
    expect((await Promise.all(responses)).map(({ code }) => code)).toEqual([200, 200, 200]);
    await expect.poll(() => [inFlight.readOnly, inFlight.mutating, waiting()]).toEqual([0, 0, 0]);
  });
});

const raw = (port: number, ca: string, text: string) =>
  new Promise<string>((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, ca, ALPNProtocols: ['http/1.1'] }, () => {
      socket.write(text);
    });
    let answer = '';
    socket.on('data', (chunk: Buffer) => {
      answer += chunk.toString('latin1');
    });
    socket.once('close', () => {
      resolve(answer);
    });
    socket.once('error', reject);
  });

describe('a request over HTTP/1.1', () => {
  it('is answered 400 or 431 if it cannot be parsed', async () => {
    await start();
    expect(await raw(server.port, server.keys.caBundle, 'nonsense\r\n\r\n')).toMatch(/^HTTP\/1.1 400 /);
    expect(await raw(server.port, server.keys.caBundle, `GET / HTTP/1.1\r\nhost: x\r\nlong: ${'y'.repeat(99_000)}\r\n\r\n`)).toMatch(
      /^HTTP\/1.1 431 /,
    );
  });

  it.each(['', 'host: x\r\nHost: y\r\n'])('is answered 400 with the hosts %j', async (hosts) => {
    await start();
    const answer = await raw(server.port, server.keys.caBundle, `GET ${maps} HTTP/1.1\r\n${hosts}connection: close\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1.1 400 /);
    expect(server.pipeline.requests).toHaveLength(0);
  });

  it.each([
    ['', 400],
    [' HTTP/0.9', 400],
    [' HTTP/2.0', 505],
    [' HTTP/1.2', 400],
    [' http/1.1', 400],
  ])('is answered and closed with the version %j', async (version, code) => {
    await start();
    const answer = await raw(server.port, server.keys.caBundle, `GET ${maps}${version}\r\nhost: x\r\n\r\n`);
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${code} `));
    expect(server.pipeline.requests).toHaveLength(0);
  });

  it('is never read from the rest of a body that is too large', async () => {
    await start();
    server.pipeline.object(configMap('a'));
    const smuggled = `GET ${maps}/a HTTP/1.1\r\nhost: x\r\n\r\n`;
    const answer = await raw(
      server.port,
      server.keys.caBundle,
      `POST ${maps} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9999999\r\n\r\n${smuggled}`,
    );
    expect(answer).toMatch(/^HTTP\/1.1 413 /);
    expect(answer).toMatch(/Connection: close/);
    expect(server.pipeline.requests).toHaveLength(0);
  });

  it('is rejected if its body has two lengths', async () => {
    await start();
    expect(
      await raw(
        server.port,
        server.keys.caBundle,
        `POST ${maps} HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
      ),
    ).toMatch(/^HTTP\/1.1 400 /);
  });
});

describe('stopping the server', () => {
  it('completes requests in progress, rejects new ones and releases the port', async () => {
    await start();
    let release: () => void = () => undefined;
    server.pipeline.answer = () =>
      new Promise((resolve) => {
        release = () => {
          resolve({ kind: 'object', code: 200, item: encoded(configMap('a')), warnings: [] });
        };
      });
    const session = server.session();
    const early = server.http2('GET', `${maps}/a`, { over: session });
    await expect.poll(() => server.pipeline.requests.length).toBe(1);
    const stopped = server.stop();
    await expect(server.http1('GET', `${maps}/b`)).rejects.toThrow(/ECONNREFUSED/);
    release();
    expect((await early).code).toBe(200);
    await stopped;
    await start();
  });
});
