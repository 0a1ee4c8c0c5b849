import { request as request1, type RequestOptions } from 'node:https';
import { constants, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import type { IncomingMessage } from 'node:http';
import { expired } from '@oarlock/api/status';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { WatchFrame } from '../../../src/endpoints/request/response.ts';
import { configMap, encoded, frame } from '../../support/fake-pipeline.ts';
import { startServer, type TestServer } from '../../support/start-server.ts';

/** A source of frames that a test pushes. It records whether its iteration has ended. */
class Source implements AsyncIterable<readonly WatchFrame[]> {
  readonly #batches: (readonly WatchFrame[])[] = [];
  #wake: (() => void) | undefined;
  #error: unknown;
  #ended = false;
  batchesRead = 0;
  returned = false;
  signal: AbortSignal | undefined;

  push(...frames: readonly WatchFrame[]): void {
    this.#batches.push(frames);
    this.#wake?.();
  }
  end(error?: unknown): void {
    this.#ended = true;
    this.#error = error;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator]() {
    try {
      for (;;) {
        const next = this.#batches.shift();
        if (next !== undefined) {
          this.batchesRead += 1;
          yield next;
        } else if (this.#error !== undefined) throw this.#error;
        else if (this.#ended || this.signal?.aborted === true) return;
        else
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
            this.signal?.addEventListener('abort', () => {
              resolve();
            });
          });
      }
    } finally {
      this.returned = true;
    }
  }
}

interface Reader {
  lines(count: number): Promise<Record<string, never>[]>;
  readonly code: number;
  readonly headers: Record<string, unknown>;
  end: Promise<'end' | 'cut'>;
  close(): void;
  pause(): void;
  resume(): void;
}

let server: TestServer;
let source: Source;
beforeEach(async () => {
  server = await startServer();
  source = new Source();
  server.pipeline.answer = ({ resource, signal }) => {
    source.signal = signal;
    return { kind: 'watch', resource, frames: source };
  };
});
afterEach(() => server.stop());

const path = '/api/v1/namespaces/default/configmaps?watch=1';
type Protocol = 'http1' | 'http2';
async function open(protocol: Protocol, headers: Record<string, string> = {}): Promise<Reader> {
  const stream: IncomingMessage | ClientHttp2Stream =
    protocol === 'http1' ? await open1({ headers }) : await open2(server.session(), headers);
  let text = '';
  let wake: (() => void) | undefined;
  stream.on('data', (chunk: Buffer) => {
    text += chunk.toString('utf8');
    wake?.();
  });
  const end = new Promise<'end' | 'cut'>((resolve) => {
    stream.once('end', () => {
      resolve('end');
    });
    stream.once('error', () => {
      resolve('cut');
    });
    stream.once('aborted', () => {
      resolve('cut');
    });
  });
  const code =
    'statusCode' in stream
      ? (stream.statusCode ?? 0)
      : Number((stream as ClientHttp2Stream & { head: Record<string, unknown> }).head[':status']);
  return {
    code,
    headers: 'statusCode' in stream ? stream.headers : (stream as ClientHttp2Stream & { head: Record<string, unknown> }).head,
    end,
    async lines(count) {
      while (text.split('\n').length <= count)
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      return text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Record<string, never>);
    },
    close: () => {
      if ('statusCode' in stream) stream.destroy();
      else (stream as ClientHttp2Stream).close(constants.NGHTTP2_CANCEL);
    },
    pause: () => {
      stream.pause();
    },
    resume: () => {
      stream.resume();
    },
  };
}
const open1 = (options: RequestOptions) =>
  new Promise<IncomingMessage>((resolve, reject) => {
    request1({ host: '127.0.0.1', port: server.port, path, ca: server.keys.caBundle, agent: false, ...options }, resolve)
      .on('error', reject)
      .end();
  });
const open2 = (session: ClientHttp2Session, headers: Record<string, string>) =>
  new Promise<ClientHttp2Stream>((resolve, reject) => {
    const stream = session.request({ ':path': path, ...headers });
    stream.once('error', reject);
    stream.once('response', (head) => {
      resolve(Object.assign(stream, { head }));
    });
  });

describe.each(['http1', 'http2'] as const)('a watch over %s', (protocol) => {
  it('begins immediately and sends each event as a line', async () => {
    const reader = await open(protocol);
    expect(reader.code).toBe(200);
    expect(reader.headers['content-type']).toBe('application/json');
    source.push(frame('ADDED', encoded(configMap('a'))));
    expect(await reader.lines(1)).toMatchObject([{ type: 'ADDED', object: { kind: 'ConfigMap', metadata: { name: 'a' } } }]);
    source.push(
      frame('MODIFIED', encoded(configMap('a'))),
      frame('ADDED', encoded(configMap('b', { data: { x: 'ü'.repeat(5000) } }))),
      frame('DELETED', encoded(configMap('a'))),
    );
    source.push();
    expect((await reader.lines(4)).map(({ type }) => type)).toEqual(['ADDED', 'MODIFIED', 'ADDED', 'DELETED']);
    source.end();
    expect(await reader.end).toBe('end');
  });

  it('includes span contexts only on request', async () => {
    const spanContext = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', traceFlags: 1 };
    const [plain, asking] = [await open(protocol), source];
    asking.push(frame('ADDED', encoded(configMap('a')), spanContext));
    expect(await plain.lines(1)).toEqual([{ type: 'ADDED', object: expect.anything() as never }]);
    source = new Source();
    const caused = await open(protocol, { 'x-oarlock-cause': '1' });
    source.push(frame('ADDED', encoded(configMap('a')), spanContext), frame('BOOKMARK', encoded(configMap('b'))));
    expect(await caused.lines(2)).toEqual([
      { type: 'ADDED', object: expect.anything() as never, cause: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' },
      { type: 'BOOKMARK', object: expect.anything() as never },
    ]);
    asking.end();
    source.end();
  });

  it('ends with an ERROR line if the source fails', async () => {
    const reader = await open(protocol);
    source.push(frame('ADDED', encoded(configMap('a'))));
    source.end(expired('too old resource version: 1 (9)'));
    expect((await reader.lines(2))[1]).toMatchObject({
      type: 'ERROR',
      object: { kind: 'Status', code: 410, reason: 'Expired', message: 'too old resource version: 1 (9)' },
    });
    expect(await reader.end).toBe('end');
  });

  it('sends tables, with the columns once', async () => {
    const reader = await open(protocol, { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' });
    source.push(frame('ADDED', encoded(configMap('a'))));
    source.push(
      frame('MODIFIED', encoded(configMap('a'))),
      frame('BOOKMARK', encoded({ kind: 'ConfigMap', apiVersion: 'v1', metadata: { resourceVersion: '9' } })),
    );
    const lines = (await reader.lines(3)) as unknown as {
      type: string;
      object: { kind: string; columnDefinitions: unknown[] | null; rows: { cells: unknown[] }[]; metadata: object };
    }[];
    expect(lines.map(({ object }) => [object.kind, object.columnDefinitions?.length, object.rows.length])).toEqual([
      ['Table', 3, 1],
      ['Table', undefined, 1],
      ['Table', undefined, 1],
    ]);
    expect(lines[2]?.object.metadata).toEqual({ resourceVersion: '9' });
    source.end();
  });

  it('sends partial metadata', async () => {
    const reader = await open(protocol, { accept: 'application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io' });
    source.push(frame('ADDED', encoded(configMap('a', { data: { x: 'y' } }))));
    expect(await reader.lines(1)).toEqual([
      {
        type: 'ADDED',
        object: { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: configMap('a').metadata } as never,
      },
    ]);
    source.end();
  });

  it('ends the iteration of its source when the client disconnects', async () => {
    const reader = await open(protocol);
    source.push(frame('ADDED', encoded(configMap('a'))));
    await reader.lines(1);
    reader.close();
    await expect.poll(() => source.signal?.aborted).toBe(true);
    await expect.poll(() => source.returned).toBe(true);
    await expect.poll(() => server.handler.active).toBe(0);
  });

  it('does not read ahead of the client', async () => {
    const reader = await open(protocol);
    reader.pause();
    const large = frame('ADDED', encoded(configMap('a', { data: { x: 'z'.repeat(256 * 1024) } })));
    for (let i = 0; i < 400; i += 1) source.push(large);
    let before = -1;
    await expect
      .poll(
        () => {
          const still = source.batchesRead === before;
          before = source.batchesRead;
          return still && before > 0;
        },
        { interval: 100 },
      )
      .toBe(true);
    expect(source.batchesRead).toBeLessThan(100);
    reader.resume();
    await expect.poll(() => source.batchesRead).toBe(400);
    source.end();
    expect((await reader.lines(400)).length).toBe(400);
  });

  it('ends without an error when the server stops', async () => {
    const reader = await open(protocol);
    source.push(frame('ADDED', encoded(configMap('a'))));
    await reader.lines(1);
    await server.stop();
    expect(await reader.end).toBe('end');
    expect(source.returned).toBe(true);
  });
});

it('a pipelined watch is served after the response before it', async () => {
  server.pipeline.object(configMap('a'));
  const { connect } = await import('node:tls');
  const socket = connect({ host: '127.0.0.1', port: server.port, ca: server.keys.caBundle, ALPNProtocols: ['http/1.1'] });
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('utf8');
  });
  const answer = server.pipeline.answer;
  server.pipeline.answer = (request) =>
    request.verb === 'watch' ? { kind: 'watch', resource: request.resource, frames: source } : answer(request);
  socket.write(`GET /api/v1/namespaces/default/configmaps/a HTTP/1.1\r\nhost: x\r\n\r\nGET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`);
  source.push(frame('ADDED', encoded(configMap('later'))));
  await expect.poll(() => text).toContain('"later"');
  source.end();
  await expect.poll(() => text.endsWith('0\r\n\r\n')).toBe(true);
  socket.destroy();
});
