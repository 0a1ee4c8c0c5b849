import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { pods } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { z } from 'zod';
import type { configuration } from '@oarlock/scheduler/config/configuration';
import { selfSignedCertificate } from '../support/self-signed-certificate.ts';
import { node, pod, testScheduler } from '../support/test-scheduler.ts';

type Extender = NonNullable<z.input<typeof configuration>['extenders']>[number];
interface Asked {
  readonly verb: string;
  readonly body: {
    readonly Pod?: Pod;
    readonly NodeNames?: readonly string[] | null;
    readonly Nodes?: { readonly items: readonly { readonly metadata: { readonly name: string } }[] } | null;
    readonly NodeNameToMetaVictims?: Readonly<Record<string, unknown>>;
  };
}

let server: Server;
let w: ReturnType<typeof testScheduler>;
let asked: Asked[];
let answers: Record<string, (body: Asked['body']) => unknown>;

beforeEach(async () => {
  asked = [];
  answers = {};
  server = createServer(serve);
  await listening(server);
});
afterEach(async () => {
  await w.stop();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const listening = (some: Server) => new Promise<void>((resolve) => some.listen(0, '127.0.0.1', resolve));
const serve: RequestListener = (request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const verb = (request.url ?? '').split('/').at(-1) ?? '';
    const body = JSON.parse(Buffer.concat(chunks).toString()) as Asked['body'];
    asked.push({ verb, body });
    const answer = answers[verb];
    response.statusCode = answer === undefined ? 500 : 200;
    response.end(JSON.stringify(answer?.(body) ?? null));
  });
};

const start = async (more: Partial<Extender>) => {
  const { port } = server.address() as AddressInfo;
  w = testScheduler({ extenders: [{ urlPrefix: `http://127.0.0.1:${port}/scheduler/`, ...more }] });
  w.seedNodes(node('a', {}, { cpu: '2' }), node('b', {}, { cpu: '2' }), node('c', {}, { cpu: '2' }));
  await w.start();
};
/** The response arrives over a socket: advances the clock until then. */
const eventually = (check: () => void) =>
  vi.waitFor(
    async () => {
      await w.clock.settle();
      check();
    },
    { timeout: 120_000, interval: 5 },
  );
const asking = (cpu: string, priority = 0) => ({
  priority,
  containers: [{ name: 'c', image: 'a:1', resources: { requests: { cpu } } }],
});

describe('an extender', () => {
  it('filters nodes and returns the reasons', async () => {
    answers = { filter: () => ({ NodeNames: ['b'], FailedNodes: { a: 'too loud' }, FailedAndUnresolvableNodes: { c: 'too far' } }) };
    await start({ filterVerb: 'filter', nodeCacheCapable: true });
    await w.submit(pod('p'));
    await eventually(() => expect(w.placeOf('p')).toBe('b'));
    expect(asked[0]?.body.Pod?.metadata?.name).toBe('p');
    expect(asked[0]?.body.NodeNames?.toSorted()).toEqual(['a', 'b', 'c']);
    answers = {
      filter: () => ({ NodeNames: [], FailedNodes: { a: 'too loud', b: 'too loud' }, FailedAndUnresolvableNodes: { c: 'too far' } }),
    };
    await w.submit(pod('q'));
    await eventually(() => expect(w.whyNot('q')).toContain('0/3 nodes are available: 1 too far, 2 too loud.'));
  });

  it('receives whole nodes unless it is nodeCacheCapable, and scores them', async () => {
    answers = {
      prioritize: ({ Nodes }) =>
        (Nodes?.items ?? []).map(({ metadata }) => ({ Host: metadata.name, Score: metadata.name === 'c' ? 10 : 0 })),
    };
    await start({ prioritizeVerb: 'prioritize', weight: 10 });
    await w.submit(pod('p'));
    await eventually(() => expect(w.placeOf('p')).toBe('c'));
  });

  it('receives only pods that request its managed resources, which the scheduler may ignore', async () => {
    answers = { filter: ({ NodeNames }) => ({ NodeNames }) };
    await start({ filterVerb: 'filter', nodeCacheCapable: true, managedResources: [{ name: 'example.com/x', ignoredByScheduler: true }] });
    await w.submit(pod('p'));
    expect(w.placeOf('p')).toBeDefined();
    expect(asked).toEqual([]);
    await w.submit(pod('q', { containers: [{ name: 'c', image: 'a:1', resources: { requests: { 'example.com/x': '1' } } }] }));
    await eventually(() => expect(w.placeOf('q')).toBeDefined());
    expect(asked).toHaveLength(1);
  });

  it('binds instead of the scheduler', async () => {
    answers = { bind: () => ({}) };
    await start({ bindVerb: 'bind' });
    await w.submit(pod('p'));
    await eventually(() => expect(asked).toHaveLength(1));
    expect(asked[0]?.body).toMatchObject({ PodName: 'p', PodNamespace: 'd', Node: expect.any(String) });
    expect(w.placeOf('p')).toBeUndefined();
  });

  it('fails the pod if it cannot bind, unless it is ignorable', async () => {
    await start({ bindVerb: 'bind' });
    await w.submit(pod('p'));
    await eventually(() => expect(w.podOf('p')?.status?.conditions?.[0]).toMatchObject({ reason: 'SchedulerError' }));
    await w.stop();
    await start({ bindVerb: 'bind', ignorable: true });
    await w.submit(pod('p'));
    await eventually(() => expect(w.placeOf('p')).toBeDefined());
  });

  it('is verified by its certificate, and verifies the client certificate of the scheduler', async () => {
    answers = { filter: ({ NodeNames }) => ({ NodeNames }) };
    const [own, ours] = await Promise.all([selfSignedCertificate('extender.example'), selfSignedCertificate('scheduler')]);
    const secure = createSecureServer({ ...own, ca: ours.cert, requestCert: true, rejectUnauthorized: true }, serve);
    await listening(secure);
    try {
      const { port } = secure.address() as AddressInfo;
      const data = (text: string) => Buffer.from(text).toString('base64');
      const urlPrefix = `https://127.0.0.1:${port}`;
      const tls = { serverName: 'extender.example', caData: data(own.cert), certData: data(ours.cert), keyData: data(ours.key) };
      const via = async (tlsConfig: Extender['tlsConfig']) => {
        await start({ urlPrefix, filterVerb: 'filter', nodeCacheCapable: true, tlsConfig });
        await w.submit(pod('p'));
      };
      await via(tls);
      await eventually(() => expect(w.placeOf('p')).toBeDefined());
      for (const wrong of [
        { ...tls, serverName: 'another.example' },
        { ...tls, caData: data(ours.cert) },
        { serverName: tls.serverName, caData: tls.caData },
      ]) {
        await w.stop();
        await via(wrong);
        await eventually(() => expect(w.podOf('p')?.status?.conditions?.[0]).toMatchObject({ reason: 'SchedulerError' }));
      }
    } finally {
      secure.closeAllConnections();
      await new Promise((resolve) => secure.close(resolve));
    }
  });

  it('fails the pod if its filter fails, unless it is ignorable', async () => {
    await start({ filterVerb: 'filter' });
    await w.submit(pod('p'));
    await eventually(() =>
      expect(w.podOf('p')?.status?.conditions?.[0]).toMatchObject({
        reason: 'SchedulerError',
        message: expect.stringContaining('code 500'),
      }),
    );
    await w.stop();
    await start({ filterVerb: 'filter', ignorable: true });
    await w.submit(pod('p'));
    await eventually(() => expect(w.placeOf('p')).toBeDefined());
  });

  it('removes preemption victims', async () => {
    answers = {
      preempt: ({ NodeNameToMetaVictims = {} }) => ({ NodeNameToMetaVictims: { b: NodeNameToMetaVictims['b'] } }),
    };
    await start({ preemptVerb: 'preempt', nodeCacheCapable: true });
    w.api.seed(pods, ...['a', 'b', 'c'].map((name) => ({ ...pod(name, { ...asking('2', 1), nodeName: name }) })));
    await w.clock.settle();
    await w.submit(pod('p', asking('2', 10)));
    await eventually(() => expect(w.podOf('p')?.status?.nominatedNodeName).toBe('b'));
    await eventually(() => expect(w.podOf('b')?.metadata?.deletionTimestamp).toBeDefined());
    expect(Object.keys(asked[0]?.body.NodeNameToMetaVictims ?? {}).sort()).toEqual(['a', 'b', 'c']);
  });
});
